"""The package is pure: it imports only arithmetic, checksums, patterns of text and times, numpy, the errors, and what metrics are."""

from __future__ import annotations

import ast
from pathlib import Path

from streammetrics import experiments
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
FILES = sorted(Path(experiments.__file__).parent.glob("*.py"))


@for_each(FILES, lambda file: file.stem)
def test_modules_import_only_arithmetic(file: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module or "")
    own = {name for name in names if name.partition(".")[0] == "streammetrics"}
    assert {name.partition(".")[0] for name in names - own} <= ALLOWED
    assert all(name.startswith(ROOMS) for name in own)


def test_all_names_of_the_package_exist() -> None:
    assert len(FILES) > 5
    for name in experiments.__all__:
        assert getattr(experiments, name) is not None
