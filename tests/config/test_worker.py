"""Tests of the settings of the worker process."""

from __future__ import annotations

import pytest

from tests.support.settings import by_flags


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"worker.role": "exporter", "worker.processes": 2}, ["worker.processes: ignored"]),
        ({"worker.role": "worker", "worker.processes": 2}, []),
    ],
)
def test_unused_settings_are_warnings(given, expected):
    warnings = by_flags(given).warnings
    assert len(warnings) == len(expected)
    assert all(warning.startswith(start) for warning, start in zip(warnings, expected, strict=True))
