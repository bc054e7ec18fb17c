"""Experiments and statistics import only arithmetic, checksums, patterns, times, numpy, words, errors and the records of metrics."""

from __future__ import annotations

import ast
from pathlib import Path

from streammetrics import experiments, statistics
from tests.support.tables import for_each

ALLOWED = {
    "__future__",
    "string",
    "bisect",
    "collections",
    "dataclasses",
    "datetime",
    "fractions",
    "functools",
    "itertools",
    "math",
    "re",
    "statistics",
    "types",
    "typing",
    "zlib",
    "numpy",
}
ROOMS = (
    "streammetrics.errors",
    "streammetrics.experiments",
    "streammetrics.metrics.names",
    "streammetrics.metrics.records",
    "streammetrics.statistics",
    "streammetrics.words",
)
FILES = sorted(file for room in (experiments, statistics) for file in Path(room.__file__ or "").parent.glob("*.py"))


@for_each(FILES, lambda file: f"{file.parent.name}.{file.stem}")
def test_modules_import_only_arithmetic(file: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module or "")
    modules = {name for name in names if name.partition(".")[0] == "streammetrics"}
    assert {name.partition(".")[0] for name in names - modules} <= ALLOWED
    assert all(name.startswith(ROOMS) for name in modules)


def test_all_names_of_the_package_exist() -> None:
    assert len(FILES) > 5
    for name in experiments.__all__:
        assert getattr(experiments, name) is not None
