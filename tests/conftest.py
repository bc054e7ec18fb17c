"""What holds for all tests: how hard property tests search, that signals reach what they start, where logs go, and what the
garbage collector leaves alone.

Property tests draw new examples in each local run, and more of them with `--hypothesis-profile=deep` (about an hour). CI draws the
same examples for the same code, so that a change fails for what it changed. `tests.tools.mutants` also draws those, and shrinks none.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings

settings.register_profile("quick", max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", max_examples=40, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate), database=None)
settings.load_profile("ci" if os.environ.get("CI") else "quick")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for what a script runs in the background: its children would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup, which only the tests themselves are to heed
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_collection_finish() -> None:
    """Some thousand tests with the libraries that they use stay to the end: the collector need not walk over them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """A command that ran in this process has logged to what is gone now."""
    yield
    structlog.reset_defaults()
