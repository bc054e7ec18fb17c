"""The workers end with the session. The modules that import the libraries are run in the golden environment, never collected here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.metrics.golden import answers

collect_ignore = ["libraries"]


@pytest.fixture(scope="session", autouse=True)
def _workers_end() -> Iterator[None]:
    yield
    answers.dismiss()
