"""The dashboards match the TypeScript types that Grafana publishes."""

from __future__ import annotations

import copy

from tests.grafana.reading import NAMES, committed
from tests.grafana.typescript import type_errors


def test_the_dashboards_have_valid_types() -> None:
    assert type_errors({name: committed(name) for name in NAMES}) == []


def test_a_wrong_type_and_a_misspelt_key_are_found() -> None:
    misspelt, mistyped, inside = (copy.deepcopy(committed("pipeline")) for _ in range(3))
    stat, curves = mistyped["panels"][1], mistyped["panels"][10]
    misspelt["timezones"] = misspelt.pop("timezone")
    inside["panels"][1]["descripton"] = inside["panels"][1].pop("description")
    stat["gridPos"]["w"] = "3"
    stat["options"]["colorMode"] = "backgroud"
    curves["fieldConfig"]["defaults"]["custom"]["lineWidht"] = 2
    errors = type_errors({"misspelt": misspelt, "mistyped": mistyped, "inside": inside})
    assert len(errors) == 5, errors
    for words in ("timezones", "'string' is not assignable to type 'number'", "backgroud", "lineWidht", "descripton"):
        assert any(words in line for line in errors), words
