"""The package keeps its shape: few rooms, in the order of its page, one meaning for each type's name, and tests that stand alone."""

from __future__ import annotations

import ast
import doctest
import re
import tomllib
from collections import Counter, defaultdict

from tests.support.paths import ROOT

PACKAGE = ROOT / "streammetrics"
ENTRIES_MAX = 24
LAYERS_MAX = 13
PRONOUNS = {"each", "found", "known", "own", "shown"}
LINES_MIN = 60
LINES_MAX = 400
SMALL = {"readers.openfeature"}
"""Small modules with one importer beside them: each reader is a file to copy."""


def test_the_package_has_few_entries() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.name not in ("py.typed", "__pycache__")]
    assert len(entries) <= ENTRIES_MAX


def test_the_page_lists_every_room_and_no_other() -> None:
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^    ([a-z]+)  +\S", page.split("## The house")[1].split("###")[0], re.MULTILINE)
    assert sorted(listed) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_the_import_contract_has_few_layers() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [
        contract["layers"] for contract in contracts if contract["type"] == "layers" and contract["containers"] == ["streammetrics"]
    ]
    assert len(layers) <= LAYERS_MAX


def test_no_two_public_types_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias")
            name = node.name if isinstance(node, ast.ClassDef) else ast.unparse(node.target) if is_alias else "_"  # type: ignore[union-attr]
            if not name.startswith("_"):
                places[name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_test_imports_another_test() -> None:
    pattern = re.compile(r"^ *(?:from|import) tests\S*\.test_\w+", re.MULTILINE)
    modules = (ROOT / "tests").rglob("*.py")
    imports = {str(path.relative_to(ROOT)): lines for path in modules if (lines := pattern.findall(path.read_text(encoding="utf-8")))}
    assert imports == {}, "what tests share belongs in tests/support, or in a module of samples beside them"


def bound_names(source: str) -> Counter[str]:
    """Return how often source code binds each name, in code and in the examples of its docstrings."""
    tree = ast.parse(source)
    names = Counter[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] += 1
        elif isinstance(node, ast.arg):
            names[node.arg] += 1
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
            for example in examples:
                names += bound_names(example.source)
    return names


def test_names_are_nouns() -> None:
    """A name says what a thing is. These words say only that there is one."""
    paths = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    pronouns = {path: PRONOUNS & bound_names(path.read_text(encoding="utf-8")).keys() for path in paths}
    assert {str(path.relative_to(ROOT)): words for path, words in pronouns.items() if words} == {}


def test_types_are_nouns() -> None:
    """A type that is called `Joined` or `Stored` says what happened, not what it is."""
    classes = (
        (path, node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    participles = {f"{path.stem}.{node.name}" for path, node in classes if re.fullmatch("_?[A-Z][a-z]*[^e]ed", node.name)}
    assert participles == set()


def test_a_module_has_no_more_lines_than_a_reader_keeps_in_mind() -> None:
    lines = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > LINES_MAX} == {}


def test_a_small_module_does_not_lie_beside_the_only_one_that_uses_it() -> None:
    """Both belong together, so they are one module."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in PACKAGE.rglob("*.py")}
    importers: dict[str, set[str]] = defaultdict(set)
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    importers[submodule if submodule in modules else node.module].add(module)
    small = {
        module.removeprefix("streammetrics.")
        for module, path in modules.items()
        if len(path.read_text(encoding="utf-8").splitlines()) < LINES_MIN and path.name != "__init__.py"
        if [importer.rpartition(".")[0] for importer in importers[module]] == [module.rpartition(".")[0]]
    }
    assert small == SMALL
