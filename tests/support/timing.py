"""Bounds on wall-clock time that only `make test-timing` checks, because a busy machine can break any of them."""

from __future__ import annotations

import math

import pytest


def time_bound(seconds: float) -> pytest.MarkDecorator:
    """Parametrize a test with `seconds_max`: without a bound by default, and with this bound under the marker `timing`."""
    bounded = pytest.param(seconds, id=f"within {seconds:g} s", marks=pytest.mark.timing)
    return pytest.mark.parametrize("seconds_max", [pytest.param(math.inf, id="any time"), bounded])
