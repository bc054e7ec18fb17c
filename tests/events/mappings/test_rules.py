"""Mappings are checked as a whole, and all problems are reported at once."""

from __future__ import annotations

from typing import Any

import pytest

from streammetrics.events.mappings.rules import PRESETS, MappingError, parse_mappings
from tests.support.tables import for_each

CLICK: dict[str, Any] = {"kind": "feedback", "user_id": "user", "ts": "time", "item_id": "sku", "action": "event"}
LIST: dict[str, Any] = {"kind": "impression", "user_id": "user", "ts": "time", "impression_id": "id", "items": "skus"}


def problems(*tables: object) -> tuple[str, ...]:
    try:
        parse_mappings(tables)
    except MappingError as error:
        return error.problems
    return ()


def test_valid_mappings_have_no_problems() -> None:
    assert problems(CLICK, LIST, {"kind": "ignore"}, {"kind": "native", "when": {"type": ["impression", "feedback"]}}) == ()


def test_all_problems_of_all_mappings_are_reported() -> None:
    assert problems({"kind": "feedback", "name": "clicks"}, {"kind": "click"}, "text") == (
        "mapping 1 (clicks): user_id is required",
        "mapping 1 (clicks): ts is required",
        "mapping 1 (clicks): items or item_id is required",
        "mapping 1 (clicks): action is required",
        f"mapping 2: kind must be one of impression, feedback, exposure, ignore, native, ubi, {', '.join(PRESETS)}",
        "mapping 3: must be a table",
    )


@for_each(
    [
        (CLICK | {"user": "x"}, "unknown key user; did you mean user_id?"),
        (CLICK | {"experiments": "x"}, "unknown key experiments for kind = feedback"),
        ({"kind": "exposure", "user_id": "u", "ts": "t", "experiment": "flag"}, "variant is required"),
        ({"kind": "exposure", "user_id": "u", "ts": "t", "experiment": "f", "variant": "v", "action": "a"}, "unknown key action for kind"),
        (CLICK | {"ts_unit": "h"}, "ts_unit must be one of ms, s, us, ns, utc"),
        (CLICK | {"user_id": "a..b"}, "user_id: 'a..b' is not a path"),
        (CLICK | {"user_id": "{a"}, "user_id: '{a': each brace needs its partner"),
        (CLICK | {"user_id": []}, "user_id: must be a path, an array of paths"),
        (CLICK | {"topics": [1]}, "topics must be an array of texts"),
        (CLICK | {"when": {"a": 1.5}}, "when: a must be a text, a whole number"),
        (CLICK | {"when": "event"}, "when must be a table"),
        (CLICK | {"item_value": "price"}, "item_value needs items; without items, use value"),
        (LIST | {"items": ["a", "{b}"]}, "items must be a path to an array"),
        (LIST | {"items": [{"value": []}]}, "items must be a path to an array"),
        (LIST | {"impression_id": ["a", {"value": []}]}, "impression_id: { value = [] } is for items only"),
        (LIST | {"fragment": 1}, "fragment must be true or false"),
        (LIST | {"fragment": True}, "fragment = true needs item_position"),
        (LIST | {"page_start": {"page": "p"}}, "page_start must be a path, or { page = …, size = … }"),
        (LIST | {"page_start": {"page": "p", "size": 0}}, "page_start must be a path, or { page = …, size = … }"),
        (LIST | {"page_start": "a..b"}, "page_start: 'a..b' is not a path"),
        (
            {"kind": "impression", "user_id": "u", "ts": "t", "impression_id": "i", "item_id": "s", "page_start": "from"},
            "fragment = true needs item_position, or page_start with items",
        ),
        (LIST | {"items": None, "item_id": "sku"}, ""),
        (LIST | {"experiments": {"": "x"}}, "experiments: a name must not be empty"),
    ]
)
def test_each_problem_names_its_key(case: tuple[dict[str, Any], str]) -> None:
    table, problem = case
    assert any(f"mapping 1: {problem}" in each for each in problems(table)) or not problem


def test_a_list_of_one_item_is_a_list_in_parts() -> None:
    table = {key: value for key, value in LIST.items() if key != "items"} | {"item_id": "sku"}
    assert problems(table) == ("mapping 1: a list of one item from each record is a list in parts: set fragment = true, or give items",)


def test_something_else_than_an_array_is_rejected() -> None:
    with pytest.raises(MappingError, match="must be an array of tables"):
        parse_mappings({"kind": "ignore"})
