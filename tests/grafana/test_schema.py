"""No key is misspelt: Grafana's SDK drops unknown keys, and it returns every key. tests/integration checks the types."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

import grafana  # noqa: F401 (silences a warning of the SDK)
from tests.grafana.reading import NAMES, committed


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every leaf with its path of keys."""
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inside, (*path, key))
    else:
        yield path, value


def lost(given: dict[str, Any]) -> set[tuple[str | int, ...]]:
    """Return the keys that the SDK drops or changes."""
    register_default_plugins()  # without it the SDK does not check options of panels and queries
    again = json.loads(json.dumps(dashboard.Dashboard.from_json(copy.deepcopy(given)), cls=JSONEncoder))
    return {path for path, _ in {*paths(given)} - {*paths(again)}}


@pytest.mark.parametrize("name", NAMES)
def test_grafana_knows_every_key(name: str) -> None:
    assert lost(committed(name)) == set()


def test_a_misspelt_key_is_found() -> None:
    given = copy.deepcopy(committed("pipeline"))
    given["panels"][1]["descripton"] = given["panels"][1].pop("description")
    given["panels"][1]["options"]["colourMode"] = "value"
    assert lost(given) == {("panels", 1, "descripton"), ("panels", 1, "options", "colourMode")}
