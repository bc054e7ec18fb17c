"""The path of a record that a path probably means, where the record has nothing at it. For messages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

from streammetrics.events.mappings.paths import Path, Step, walker
from streammetrics.events.mappings.plain import json_in_text

NODES_MAX: Final = 500
"""Values of a record that are looked at."""
_ALIKE: Final = 0.75
_PLAIN: Final = frozenset('."[]{}=')


def nearest_path(record: Any, path: Path) -> str | None:
    """Return the path with a value that is nearest to one without: a name spelled alike, or the same last name elsewhere.

    >>> record = {"context": {"abTests": {"ranker": "new"}}, "page": {"surface": "home"}}
    >>> from streammetrics.events.mappings.paths import parse_path
    >>> [nearest_path(record, parse_path(text)) for text in ("context.abTest.ranker", "surface", "context.user")]
    ['context.abTests.ranker', 'page.surface', None]
    """
    return _spelled_alike(record, path.steps, ()) or _elsewhere(record, path)


def _spelled_alike(found: Any, steps: Sequence[Step], before: tuple[Step, ...]) -> str | None:
    """Follow the steps, and take a name that is spelled alike where one is missing."""
    if steps and type(found) is str:
        found = json_in_text(found)
    if not steps:
        return None if found is None else path_text(before)
    step, rest = steps[0], steps[1:]
    if type(step) is not str:
        inner = walker((step,))(found)
        return None if inner is None else _spelled_alike(inner, rest, (*before, step))
    if type(found) is not dict:
        return None
    names = [step] if found.get(step) is not None else _alike(step, found)
    return next((text for name in names if (text := _spelled_alike(found[name], rest, (*before, name))) is not None), None)


def _alike(name: str, known: dict[str, Any]) -> list[str]:
    by_letters: dict[str, str] = {}
    for each in known:
        by_letters.setdefault(_letters(each), each)
    return [by_letters[near] for near in get_close_matches(_letters(name), by_letters, 3, _ALIKE)]


def _letters(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


def _elsewhere(record: Any, path: Path) -> str | None:
    """Return another place of the record with the last name of the path, if there is only one."""
    last = next((step for step in reversed(path.steps) if type(step) is str), "")
    places = [steps for steps in _places(record) if _letters(str(steps[-1])) == _letters(last) and steps != path.steps]
    return path_text(places[0]) if len(places) == 1 else None


def _places(record: Any) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all values in objects, nearest to the top first."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), record)]
    for seen, (before, found) in enumerate(waiting):
        inside = json_in_text(found) if type(found) is str else found
        if seen >= NODES_MAX or type(inside) is not dict:
            continue
        for name, inner in inside.items():
            if inner is not None:
                yield (*before, name)
                waiting.append(((*before, name), inner))


def path_text(steps: Sequence[Step]) -> str:
    """Return a path as a mapping writes it.

    >>> path_text(("a.b", 0, "c"))
    '"a.b"[0].c'
    """
    text = ""
    for step in steps:
        if type(step) is int:
            text += f"[{step}]"
        elif type(step) is str:
            name = step if _PLAIN.isdisjoint(step) else f'"{step}"'
            text += f".{name}" if text else name
        else:
            text += f"[{step.field}={step.text}]"  # type: ignore[union-attr]
    return text
