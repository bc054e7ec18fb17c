"""Private names of kafka-python are used only by the patches. Each patch names its own, has a test file, and says when to delete it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import streammetrics
from streammetrics.connectors.kafka import patches
from tests.support.tables import for_each

PACKAGE, PATCHES = Path(streammetrics.__file__).parent, Path(patches.__file__).parent
PATCH_FILES = sorted(path for path in PATCHES.glob("*.py") if path.stem != "__init__")
OTHER_FILES = sorted(path for path in (PACKAGE / "connectors" / "kafka").glob("*.py"))
NAMED_TUPLE_METHODS = {"_replace", "_asdict", "_fields", "_make"}
SECTIONS = ("Works around:", "Without it:", "Private names:", "Delete it when:")


def foreign_private_names(path: Path) -> Iterator[str]:
    """Yield the underscore names that a file uses of other objects than its own classes' `self`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined_names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    defined_names |= {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (_is_self(node.value) and node.attr in defined_names):
            name = node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr", "hasattr"):
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else "_dynamic"
        elif isinstance(node, ast.alias):
            name = node.name.rpartition(".")[2]
        else:
            continue
        if re.match("_(?!_)", str(name)) and name not in NAMED_TUPLE_METHODS:
            yield str(name)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@for_each(OTHER_FILES, lambda path: path.name)
def test_no_file_outside_the_patches_uses_a_private_name_of_the_client(path: Path) -> None:
    assert sorted(foreign_private_names(path)) == []


def test_only_the_kafka_connector_imports_the_client() -> None:
    importing = {
        path.relative_to(PACKAGE).parts[:2]
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(from|import) kafka\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert importing == {("connectors", "kafka")}


@for_each(PATCH_FILES, lambda path: path.name)
class TestPatch:
    def test_its_docstring_has_every_section(self, path: Path) -> None:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert [section for section in SECTIONS if not re.search(f"^{section}", text, re.MULTILINE)] == []

    def test_its_docstring_lists_every_private_name_it_uses(self, path: Path) -> None:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        named = set(re.findall("`(_[a-z_]+)`", text.partition("Private names:")[2].partition("Delete it when:")[0]))
        overridden = {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}
        assert set(foreign_private_names(path)) <= named
        assert named <= set(foreign_private_names(path)) | overridden

    def test_the_test_that_says_when_to_delete_it_exists(self, path: Path) -> None:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        file, _, name = text.partition("Delete it when: `")[2].partition("`")[0].partition("::")
        assert f"class {name}" in (PACKAGE.parent / file).read_text(encoding="utf-8")

    def test_it_has_a_test_file_of_its_name(self, path: Path) -> None:
        assert (Path(__file__).parent / f"test_{path.stem}.py").is_file()
