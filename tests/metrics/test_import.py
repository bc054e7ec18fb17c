"""Importing the package loads only numpy and the standard library."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import streammetrics
from streammetrics import __version__, metrics

REPORT = """
import json, sys
before = set(sys.modules)
import {module}
names = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps([sorted(names - set(sys.stdlib_module_names)), sorted(name for name in sys.modules if name.startswith("streammetrics."))]))
"""


def loaded_by(module: str) -> tuple[list[str], list[str]]:
    result = subprocess.run([sys.executable, "-c", REPORT.format(module=module)], capture_output=True, text=True, check=True)
    foreign, modules = json.loads(result.stdout)
    return foreign, modules


@pytest.mark.parametrize("module", ["streammetrics", "streammetrics.metrics"])
def test_importing_loads_numpy_and_no_other_third_party_module(module: str) -> None:
    foreign, modules = loaded_by(module)
    assert [name for name in foreign if not name.startswith("_")] == ["numpy", "streammetrics"]
    outside = [name for name in modules if not name.startswith("streammetrics.metrics")]
    assert set(outside) <= {"streammetrics.errors", "streammetrics.version"}


def test_functions_for_whole_runs_load_on_first_use() -> None:
    _, modules = loaded_by("streammetrics")
    assert [name for name in modules if name.startswith("streammetrics.offline")] == []


def test_the_package_exports_the_core_and_the_version() -> None:
    assert streammetrics.__version__ == __version__
    offered = {name: getattr(streammetrics, name) for name in set(streammetrics.__all__) - {"__version__"}}
    assert set(metrics.__all__) <= set(offered)
    assert all(getattr(metrics, name) is offered[name] for name in metrics.__all__)
    homes = ("streammetrics.metrics.", "streammetrics.offline.")
    assert all(offered[name].__module__.startswith(homes) for name in set(offered) - set(metrics.__all__))


def test_unknown_names_of_the_package_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'ndgc'"):
        streammetrics.ndgc  # noqa: B018
