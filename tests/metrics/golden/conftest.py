"""Stops the workers at the end of the session. Modules that import the libraries are not collected; they run in the golden environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.metrics.golden import answers

collect_ignore = ["libraries"]


@pytest.fixture(scope="session", autouse=True)
def _workers_end() -> Iterator[None]:
    yield
    answers.dismiss()
