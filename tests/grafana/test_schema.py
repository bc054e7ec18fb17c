"""No key is misspelt: Grafana's SDK, which drops what it does not know, gives back every key. (Types: tests/integration.)"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from grafana.sdk import JSONEncoder, dashboard, register_default_plugins
from tests.grafana.reading import NAMES, committed


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every leaf with the keys that lead to it."""
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inside, (*path, key))
    else:
        yield path, value


def lost(given: dict[str, Any]) -> set[tuple[str | int, ...]]:
    """Keys that the SDK does not give back as they were."""
    register_default_plugins()  # or it takes options of panels and queries as they come
    again = json.loads(json.dumps(dashboard.Dashboard.from_json(copy.deepcopy(given)), cls=JSONEncoder))
    return {path for path, _ in {*paths(given)} - {*paths(again)}}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_one_that_grafana_knows(name: str) -> None:
    assert lost(committed(name)) == set()


def test_a_misspelt_key_would_be_found() -> None:
    given = copy.deepcopy(committed("pipeline"))
    given["panels"][1]["descripton"] = given["panels"][1].pop("description")
    given["panels"][1]["options"]["colourMode"] = "value"
    assert lost(given) == {("panels", 1, "descripton"), ("panels", 1, "options", "colourMode")}
