"""Snowplow: lists and clicks of the ecommerce schemas, as JSON and as lines."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Feedback, Impression
from streammetrics.readers.snowplow import ACTION, COLUMNS, LINE_COLUMNS, PRODUCTS, SESSION, read
from tests.readers.reading import events_of, parts_of
from tests.readers.samples import NOON

SENT: dict[str, Any] = {
    "event": "unstruct",
    "event_name": "snowplow_ecommerce_action",
    "event_id": "e1",
    "domain_userid": "d1",
    "collector_tstamp": "2026-03-01 12:00:01.000",
    "derived_tstamp": "2026-03-01T12:00:00.000Z",
    ACTION: {"type": "list_view", "name": "deals"},
    PRODUCTS: [{"id": "a", "price": 3.5, "position": 1}, {"id": "b", "position": 2}],
}


def entity(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"schema": f"iglu:com.snowplowanalytics.snowplow.ecommerce/{name}/jsonschema/1-0-0", "data": data}


def line(**columns: str) -> str:
    action = entity("snowplow_ecommerce_action", {"type": "list_view", "name": "deals"})
    products = [entity("product", {"id": "a", "price": 3.5, "position": 1}), entity("product", {"id": "b", "position": 2})]
    web_page = {"schema": "iglu:com.snowplowanalytics.snowplow/web_page/jsonschema/1-0-0", "data": {"id": "p"}}
    sent = {
        "collector_tstamp": "2026-03-01 12:00:01.000",
        "event": "unstruct",
        "event_id": "e1",
        "domain_userid": "d1",
        "contexts": json.dumps({"schema": "iglu:…", "data": [web_page, *products]}),
        "unstruct_event": json.dumps({"schema": "iglu:…", "data": action}),
        "derived_tstamp": "2026-03-01 12:00:00.000",
        "event_name": "snowplow_ecommerce_action",
    } | columns
    cells = [""] * LINE_COLUMNS
    for name, cell in sent.items():
        cells[COLUMNS[name]] = cell
    return "\t".join(cells)


def test_lists_and_clicks() -> None:
    assert events_of(read, SENT) == [Impression("e1", "d1", NOON, ("a", "b"), segments=(("list", "deals"),))]
    click = SENT | {ACTION: {"type": "list_click"}, PRODUCTS: [{"id": "a", "price": 3.5}], "derived_tstamp": None}
    assert events_of(read, click) == [Feedback("d1", NOON + 1_000, "a", "click", 3.5)]
    assert events_of(read, {"event": "page_view", "event_name": "page_view"}) == ["ignored"]
    assert events_of(read, SENT | {ACTION: {"type": "promo_view"}}) == ["ignored"]
    assert events_of(read, SENT | {PRODUCTS: None}) == ["reader"]


def test_the_user_of_a_mobile_app_is_in_its_session() -> None:
    mobile = SENT | {"domain_userid": None, "network_userid": "n1", SESSION: [{"userId": "app-7", "sessionIndex": 3}]}
    assert [event.user_id for event in events_of(read, mobile) if isinstance(event, Impression)] == ["app-7"]
    assert [event.user_id for event in events_of(read, mobile | {SESSION: None}) if isinstance(event, Impression)] == ["n1"]


def test_lines_are_read_as_their_json() -> None:
    assert events_of(read, line()) == events_of(read, line() + "\r") == events_of(read, SENT) != []
    click = json.dumps({"data": entity("snowplow_ecommerce_action", {"type": "list_click"})})
    assert events_of(read, line(unstruct_event=click, derived_tstamp="")) == [
        Feedback("d1", NOON + 1_000, "a", "click", 3.5),
        Feedback("d1", NOON + 1_000, "b", "click"),
    ]
    assert events_of(read, line(event="page_view", event_name="page_view", contexts="", unstruct_event="")) == ["ignored"]


def test_damaged_lines_are_refused() -> None:
    for broken in ("", "{", "[]", '{"data":7}', '{"data":[7]}', '{"data":[{"schema":"web_page"}]}'):
        assert events_of(read, line(contexts=broken)) == ["reader"]
    assert events_of(read, line() + "\tmore") == ["reader"]
    (refused,) = parts_of(read, b"shop\tweb\t2026-03-01 12:00:00")
    assert "3 columns separated by tabs; an enriched event has 131" in refused.detail  # type: ignore[union-attr]


@given(
    cells=st.lists(st.text(max_size=20) | st.sampled_from(["{", '{"data":[]}', "[1]", "1e999"]), min_size=1, max_size=6),
)
def test_no_line_raises(cells: list[str]) -> None:
    assert parts_of(read, "\t".join((cells * LINE_COLUMNS)[:LINE_COLUMNS]).encode(errors="surrogatepass"))
