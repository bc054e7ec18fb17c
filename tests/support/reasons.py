"""The reasons under which the product counts events, as its source names them: what `streammetrics.events.outcomes` is held against."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import streammetrics
from streammetrics.sessions.state import OUTCOMES

FOLDER = Path(streammetrics.__file__).parent
ROOMS = ("engine", "enrolment", "events", "sessions")
"""The folders whose code gives an event its outcome."""
REFUSING = ("_refuse", "malformed", "MalformedEvent", "refusing", "_decoded", "read_object")
"""The functions that are given a reason why an event is refused."""


@cache
def refused_reasons() -> frozenset[str]:
    """Those of the events that are refused one by one, each with the place that it came from."""
    return frozenset(reason for tree in _trees() for reason in _refused(tree))


@cache
def counted_reasons() -> frozenset[str]:
    """All of them: those, the keys of `counts`, and the outcomes of feedback."""
    others = (reason for tree in _trees() for reason in (*_keys_of_counts(tree), *_noted(tree)))
    return refused_reasons() | {*others, *OUTCOMES}


@cache
def _trees() -> list[ast.Module]:
    return [
        ast.parse(path.read_text(encoding="utf-8")) for path in sorted(chain.from_iterable((FOLDER / room).rglob("*.py") for room in ROOMS))
    ]


def _refused(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        of_refusals = called.endswith("refusals.add") or (called == "self.add" and isinstance(node, ast.Call) and len(node.args) == 4)
        if isinstance(node, ast.Call) and (called.rpartition(".")[2] in REFUSING or of_refusals):
            yield from _words(node.args)
    yield from _returned(tree, "_exceeded_limit")


def _noted(tree: ast.Module) -> Iterator[str]:
    """Reasons for labels that are left out of a list, and notes about labels."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("dropped.append", "notes.append", "_first_labels"):
            yield from _words(node.args)


def _keys_of_counts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("counts") and isinstance(node.slice, ast.Tuple):
            yield from _words(part for key in node.slice.elts for part in ([key.body, key.orelse] if isinstance(key, ast.IfExp) else [key]))


def _returned(tree: ast.Module, function: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            values = [statement.value for statement in ast.walk(node) if isinstance(statement, ast.Return) and statement.value is not None]
            yield from _words(part for value in values for part in ast.walk(value))


def _words(nodes: Iterator[ast.AST] | list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value
