"""Each preset reads a sample of the documented shape, and ugly variants of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import Event, EventLimits, Exposure, Feedback, Impression, MalformedEvent, decoder
from streammetrics.events.envelopes import without_envelope
from streammetrics.events.mappings.presets import preset_digest, preset_rules, preset_text
from streammetrics.events.mappings.rules import PRESETS, Preset
from streammetrics.events.mappings.text_rows import SNOWPLOW_COLUMNS
from tests.support.tables import for_each

NOON = 1772366400000
IGNORED = ["ignored"]


def read(preset: Preset, record: dict[str, Any]) -> list[Event | str]:
    found = decoder(preset, EventLimits())(json.dumps(record).encode())
    return [event.reason if isinstance(event, MalformedEvent) else event for event in found]


SEGMENT_LIST: dict[str, Any] = {
    "type": "track",
    "event": "Product List Viewed",
    "messageId": "m1",
    "anonymousId": "an1",
    "userId": None,
    "timestamp": "2026-03-01T12:00:00.000Z",
    "properties": {
        "list_id": "deals",
        "category": "Lamps",
        "products": [{"product_id": "b", "position": 2, "price": 9.5}, {"product_id": "a", "position": 1}],
    },
    "context": {"library": {"name": "analytics.js"}},
}
SEGMENT_CLICK = SEGMENT_LIST | {"event": "Product Clicked", "messageId": "m2", "properties": {"product_id": "a", "position": 1}}


def test_segment_lists_and_clicks() -> None:
    segments = (("category", "Lamps"), ("list", "deals"))
    assert read("segment", SEGMENT_LIST) == [Impression("m1", "an1", NOON, ("a", "b"), segments=segments)]
    assert read("segment", SEGMENT_CLICK) == [Feedback("an1", NOON, "a", "click")]


def test_segment_variants() -> None:
    bare = {"products": [{"sku": 7}, {"product_id": "b"}], "list_id": "", "category": None}
    assert read("segment", SEGMENT_LIST | {"properties": bare, "anonymousId": None, "userId": 42}) == [
        Impression("m1", "42", NOON, ("7", "b"))
    ]
    order = {"event": "Order Completed", "properties": {"products": [{"product_id": "a", "price": "9.90"}, {"product_id": "b"}]}}
    assert read("segment", SEGMENT_LIST | order) == [Feedback("an1", NOON, "a", "purchase", 9.9), Feedback("an1", NOON, "b", "purchase")]
    assert read("segment", SEGMENT_LIST | {"properties": {"products": []}}) == [Impression("m1", "an1", NOON, ())]
    assert read("segment", SEGMENT_LIST | {"properties": None}) == ["missing_field"]
    assert read("segment", {"type": "page", "anonymousId": "an1"}) == IGNORED
    assert read("segment", {"type": "track", "event": "Signed Up"}) == IGNORED
    assert read("segment", {"type": "impression"}) == ["bad_type"]


GA4_LIST: dict[str, Any] = {
    "event_date": "20260301",
    "event_timestamp": "1772366400000123",
    "event_name": "view_item_list",
    "user_pseudo_id": "11.22",
    "device": {"category": "mobile"},
    "event_params": [{"key": "ga_session_id", "value": {"int_value": "1"}}],
    "items": [{"item_id": "b", "item_list_index": "2"}, {"item_id": "a", "item_list_index": "1"}],
}


def test_ga4_lists_and_selections() -> None:
    name = "11.22/1772366400000123/view_item_list"
    assert read("ga4", GA4_LIST) == [Impression(name, "11.22", NOON, ("a", "b"), segments=(("device", "mobile"),))]
    click = GA4_LIST | {"event_name": "select_item", "items": [{"item_id": "b", "price": 5.5}]}
    assert read("ga4", click) == [Feedback("11.22", NOON, "b", "click", 5.5)]


def test_ga4_variants() -> None:
    unset = [{"item_id": "(not set)", "item_name": "Lamp", "item_list_index": "(not set)"}]
    (found,) = read("ga4", GA4_LIST | {"items": unset, "device": None})
    assert isinstance(found, Impression)
    assert (found.items, found.segments) == (("Lamp",), ())
    assert read("ga4", GA4_LIST | {"event_name": "page_view", "items": []}) == IGNORED
    assert read("ga4", GA4_LIST | {"items": None}) == IGNORED
    assert read("ga4", GA4_LIST | {"event_timestamp": "yesterday"}) == ["bad_ts"]


RANKING: dict[str, Any] = {
    "event": "ranking",
    "id": "r1",
    "timestamp": str(NOON),
    "user": "u1",
    "session": "s1",
    "fields": [{"name": "query", "value": "cat"}],
    "items": [{"id": "a", "relevancy": 2.0, "fields": []}, {"id": "b"}],
}


def test_metarank_rankings_interactions_and_metadata() -> None:
    assert read("metarank", RANKING) == [Impression("r1", "u1", NOON, ("a", "b"))]
    click = {
        "event": "interaction",
        "id": "i1",
        "ranking": "r1",
        "timestamp": NOON,
        "user": None,
        "session": "s1",
        "type": "click",
        "item": "b",
    }
    assert read("metarank", click) == [Feedback("s1", NOON, "b", "click", None, "r1")]
    assert read("metarank", {"event": "item", "id": "x", "item": "a"}) == IGNORED
    assert read("metarank", {"event": "feedback"}) == ["bad_type"]


VIEW: dict[str, Any] = {
    "eventType": "view",
    "eventName": "Hits Viewed",
    "index": "products",
    "userToken": "u1",
    "queryID": "q1",
    "timestamp": NOON,
    "objectIDs": ["a", "b", "c"],
}


def test_algolia_views_clicks_and_conversions() -> None:
    assert read("algolia", VIEW) == [Impression("q1", "u1", NOON, ("a", "b", "c"), segments=(("index", "products"),))]
    click = VIEW | {"eventType": "click", "objectIDs": ["b", "c"], "positions": [2, 3]}
    assert read("algolia", click) == [Feedback("u1", NOON, item, "click", None, "q1") for item in "bc"]
    bought = VIEW | {"eventType": "conversion", "eventSubtype": "purchase", "queryID": None, "objectIDs": [7]}
    assert read("algolia", bought) == [Feedback("u1", NOON, "7", "purchase")]
    assert read("algolia", VIEW | {"eventType": "conversion", "eventSubtype": "addToCart", "objectIDs": ["a"]}) == [
        Feedback("u1", NOON, "a", "add_to_cart", None, "q1")
    ]
    assert read("algolia", VIEW | {"eventType": "click", "objectIDs": None, "filters": ["brand:x"]}) == IGNORED
    assert read("algolia", VIEW | {"queryID": ""}) == IGNORED


ECOMMERCE = "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
PRODUCTS = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"
SNOWPLOW: dict[str, Any] = {
    "event": "unstruct",
    "event_name": "snowplow_ecommerce_action",
    "event_id": "e1",
    "domain_userid": "d1",
    "collector_tstamp": "2026-03-01 12:00:01.000",
    "derived_tstamp": "2026-03-01T12:00:00.000Z",
    ECOMMERCE: {"type": "list_view", "name": "deals"},
    PRODUCTS: [{"id": "a", "price": 3.5, "position": 1}, {"id": "b", "position": 2}],
}


def test_snowplow_lists_and_clicks() -> None:
    assert read("snowplow", SNOWPLOW) == [Impression("e1", "d1", NOON, ("a", "b"), segments=(("list", "deals"),))]
    click = SNOWPLOW | {ECOMMERCE: {"type": "list_click"}, PRODUCTS: [{"id": "a", "price": 3.5}], "derived_tstamp": None}
    assert read("snowplow", click) == [Feedback("d1", NOON + 1_000, "a", "click", 3.5)]
    assert read("snowplow", {"event": "page_view", "event_name": "page_view"}) == IGNORED
    assert read("snowplow", SNOWPLOW | {PRODUCTS: None}) == ["missing_field"]


ROW: dict[str, Any] = {
    "USER_ID": "u1",
    "ITEM_ID": "b",
    "TIMESTAMP": "1772366400",
    "EVENT_TYPE": "watch",
    "EVENT_VALUE": "31",
    "IMPRESSION": "a|b",
}


def test_personalize_rows_have_a_list_and_its_feedback() -> None:
    name = "u1/1772366400"
    assert read("personalize", ROW) == [Impression(name, "u1", NOON, ("a", "b")), Feedback("u1", NOON, "b", "watch", 31.0, name)]
    named = ROW | {"RECOMMENDATION_ID": "r1", "IMPRESSION": ["a", "b"], "TIMESTAMP": 1772366400}
    assert [event.impression_id for event in read("personalize", named) if not isinstance(event, str)] == ["r1", "r1"]
    alone = ROW | {"IMPRESSION": "", "EVENT_TYPE": "", "EVENT_VALUE": ""}
    assert read("personalize", alone) == [Feedback("u1", NOON, "b", "click")]


SEARCH: dict[str, Any] = {
    "@timestamp": "2026-03-01T12:00:00.000Z",
    "event": {"action": "search"},
    "data_stream": {"type": "behavioral_analytics", "dataset": "events", "namespace": "shop"},
    "session": {"id": "s1"},
    "user": {"id": "u1"},
    "search": {
        "query": "lamp",
        "search_application": "website",
        "results": {"items": [{"document": {"id": "a", "index": "products"}}, {"document": {"id": "b"}}], "total_results": 10},
    },
}


def test_elastic_searches_and_clicks() -> None:
    listed = Impression("s1/2026-03-01T12:00:00.000Z", "u1", NOON, ("a", "b"), segments=(("application", "website"),))
    assert read("elastic", SEARCH) == [listed]
    click = SEARCH | {"event": {"action": "search_click"}, "document": {"id": "b", "index": "products"}}
    assert read("elastic", click) == [Feedback("u1", NOON, "b", "click")]


def test_elastic_variants() -> None:
    pages = [{"page": {"url": {"original": "https://x.test/1"}}}, {"document": {"id": 7}}]
    (found,) = read("elastic", SEARCH | {"user": None, "search": {"results": {"items": pages}}})
    assert isinstance(found, Impression)
    assert (found.user_id, found.items, found.segments) == ("s1", ("https://x.test/1", "7"), ())
    page_click = {"event": {"action": "search_click"}, "page": {"url": {"original": "https://x.test/1"}}}
    assert read("elastic", SEARCH | page_click) == [Feedback("u1", NOON, "https://x.test/1", "click")]
    assert read("elastic", SEARCH | {"search": {"query": "lamp", "results": {"total_results": 0}}}) == IGNORED
    assert read("elastic", SEARCH | {"event": {"action": "page_view"}}) == IGNORED
    assert read("elastic", SEARCH | {"event": {"action": "search_click"}}) == ["missing_field"]
    assert read("elastic", SEARCH | {"session": None}) == ["missing_field"]
    hits = without_envelope("hits", decoder("elastic", EventLimits()))
    assert [*hits(json.dumps({"_index": "i", "_source": SEARCH}).encode())] == read("elastic", SEARCH)


def lines_of(preset: Preset, line: str) -> list[Event | str]:
    return [event.reason if isinstance(event, MalformedEvent) else event for event in decoder(preset, EventLimits())(line.encode())]


def mind(shown: str, time: str = "3/1/2026 12:00:00 PM") -> str:
    return "\t".join(["17", "U7", time, "N8 N9", shown])


def test_mind_lines_are_lists_with_their_clicks() -> None:
    clicks = [Feedback("U7", NOON, item, "click", None, "17") for item in ("N2", "N4")]
    assert lines_of("mind", mind("N1-0 N2-1 N3-0 N4-1")) == [Impression("17", "U7", NOON, ("N1", "N2", "N3", "N4")), *clicks]


def test_mind_variants() -> None:
    listed = Impression("17", "U7", NOON, ("N1", "N2"))
    assert lines_of("mind", mind("N1-0 N2-0")) == [listed]
    assert lines_of("mind", mind("N1 N2")) == [listed], "the test set has no labels"
    assert lines_of("mind", mind("N1-0 N2-0") + "\r") == [listed]
    assert lines_of("mind", mind("N1-0 N2-2")) == ["bad_value"]
    assert lines_of("mind", mind("N1-0", time="yesterday")) == ["bad_ts"]
    assert lines_of("mind", "17\tU7\tN1-0") == ["bad_json"]
    assert lines_of("mind", "") == ["empty"]
    assert decoder("mind", EventLimits())(b"\xff\t\t\t\t")[0].reason == "bad_json"  # type: ignore[union-attr]
    long = decoder("mind", EventLimits(event_bytes_max=10))(mind("N1-0").encode())
    assert [event.reason for event in long if isinstance(event, MalformedEvent)] == ["oversized"]


def entity(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"schema": f"iglu:com.snowplowanalytics.snowplow.ecommerce/{name}/jsonschema/1-0-0", "data": data}


def snowplow(**columns: str) -> str:
    action = entity("snowplow_ecommerce_action", {"type": "list_view", "name": "deals"})
    products = [entity("product", {"id": "a", "price": 3.5, "position": 1}), entity("product", {"id": "b", "position": 2})]
    web_page = {"schema": "iglu:com.snowplowanalytics.snowplow/web_page/jsonschema/1-0-0", "data": {"id": "p"}}
    sent = {
        "app_id": "shop",
        "collector_tstamp": "2026-03-01 12:00:01.000",
        "event": "unstruct",
        "event_id": "e1",
        "domain_userid": "d1",
        "contexts": json.dumps({"schema": "iglu:…", "data": [web_page, *products]}),
        "unstruct_event": json.dumps({"schema": "iglu:…", "data": action}),
        "derived_tstamp": "2026-03-01 12:00:00.000",
        "event_name": "snowplow_ecommerce_action",
    } | columns
    return "\t".join(sent.get(name, "") for name in SNOWPLOW_COLUMNS)


def test_snowplow_lines_are_read_as_their_json() -> None:
    assert len(SNOWPLOW_COLUMNS) == 131
    assert lines_of("snowplow", snowplow()) == read("snowplow", SNOWPLOW) != []
    click = json.dumps({"data": entity("snowplow_ecommerce_action", {"type": "list_click"})})
    assert lines_of("snowplow", snowplow(unstruct_event=click, derived_tstamp="")) == [
        Feedback("d1", NOON + 1_000, "a", "click", 3.5),
        Feedback("d1", NOON + 1_000, "b", "click"),
    ]


def test_snowplow_lines_variants() -> None:
    assert lines_of("snowplow", snowplow(event="page_view", event_name="page_view", contexts="", unstruct_event="")) == IGNORED
    assert lines_of("snowplow", snowplow(contexts="")) == ["missing_field"]
    for broken in ("{", "[]", '{"data":7}', '{"data":[7]}', '{"data":[{"schema":"web_page"}]}'):
        assert lines_of("snowplow", snowplow(contexts=broken)) == ["bad_json"]
    assert lines_of("snowplow", snowplow() + "\tmore") == ["bad_json"]
    (error,) = decoder("snowplow", EventLimits())(b"shop\tweb\t2026-03-01 12:00:00")
    assert isinstance(error, MalformedEvent)
    assert "must have 131 columns separated by tabs, and this one has 3" in error.detail


@pytest.mark.parametrize("preset", ["mind", "snowplow"])
@given(
    cells=st.lists(st.text(max_size=20) | st.sampled_from(["{", '{"data":[]}', "N1-1", "[1]", "1e999"]), max_size=6),
    repeat=st.integers(1, 131),
)
def test_no_line_raises(preset: Preset, cells: list[str], repeat: int) -> None:
    line = "\t".join((cells * repeat)[:131] if cells else [])
    assert decoder(preset, EventLimits())(line.encode(errors="surrogatepass"))


@for_each(PRESETS)
def test_a_preset_is_readable_and_has_names_for_its_mappings(preset: Preset) -> None:
    assert preset_text(preset).startswith("# ")
    assert all(rule.name and not rule.name.startswith("mapping ") for rule in preset_rules(preset))
    assert len(preset_digest(preset)) == 12


def attribute(key: str, value: object) -> dict[str, Any]:
    """Return an attribute in OTLP JSON."""
    kind = "boolValue" if isinstance(value, bool) else "stringValue"
    return {"key": key, "value": {kind: value}}


def log_record(*, name: str | None = "feature_flag.evaluation", **attributes: object) -> dict[str, Any]:
    """Return a log record in OTLP JSON. In names of attributes, an underscore stands for a dot after feature_flag."""
    named = {"key": "ranker-v7", "context_id": "u7", "result_variant": "treatment", "provider_name": "flagd"} | attributes
    sent = [attribute(f"feature_flag.{key.replace('_', '.')}", value) for key, value in named.items() if value is not None]
    record = {"timeUnixNano": f"{NOON}000123", "severityNumber": 9, "attributes": sent, "traceId": "5b8efff798038103d269b633813fc60c"}
    return record if name is None else record | {"eventName": name}


SHOWN_TO_U7 = Exposure("u7", NOON, "ranker-v7", "treatment")


def test_otel_log_records() -> None:
    assert read("otel", log_record()) == [SHOWN_TO_U7]
    assert read("otel", log_record(result_variant=None, result_value=True)) == [Exposure("u7", NOON, "ranker-v7", "true")]
    assert read("otel", log_record(result_reason="targeting_match")) == [SHOWN_TO_U7]
    observed = log_record() | {"timeUnixNano": None, "observedTimeUnixNano": NOON * 1_000_000}
    assert read("otel", observed) == [SHOWN_TO_U7]


def test_otel_variants() -> None:
    assert read("otel", log_record(result_reason="error", result_variant=None)) == IGNORED
    assert read("otel", log_record(name="session.start")) == IGNORED
    assert read("otel", {"body": {"stringValue": "a line of a log"}, "timeUnixNano": "1"}) == IGNORED
    assert read("otel", log_record(context_id=None)) == ["missing_field"]
    assert read("otel", log_record(result_variant="x" * 129)) == ["bad_label"]
    former = log_record(name=None, result_variant=None, variant="treatment")
    former["attributes"].append(attribute("event.name", "feature_flag.evaluation"))
    assert read("otel", former) == [SHOWN_TO_U7]


def test_an_export_request_of_opentelemetry_is_read_through_its_envelope() -> None:
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [log_record(), log_record(name="other"), log_record(context_id="u8")]}]}]}
    found = without_envelope("otlp", decoder("otel", EventLimits()))(json.dumps(request).encode())
    assert [event.user_id for event in found if isinstance(event, Exposure)] == ["u7", "u8"]
    assert len(found) == 3


OPENFEATURE: dict[str, Any] = {
    "name": "feature_flag.evaluation",
    "timestamp": "2026-03-01T12:00:00.000Z",
    "attributes": {
        "feature_flag.key": "ranker-v7",
        "feature_flag.context.id": "u7",
        "feature_flag.result.variant": "treatment",
        "feature_flag.result.reason": "split",
        "feature_flag.provider.name": "flagd",
    },
}


def test_openfeature_evaluations() -> None:
    attributes: dict[str, Any] = OPENFEATURE["attributes"]
    assert read("openfeature", OPENFEATURE) == [SHOWN_TO_U7]
    assert read("openfeature", OPENFEATURE | {"timestamp": NOON}) == [SHOWN_TO_U7]
    by_value = {"feature_flag.result.variant": None, "feature_flag.result.value": False}
    assert read("openfeature", OPENFEATURE | {"attributes": attributes | by_value}) == [Exposure("u7", NOON, "ranker-v7", "false")]


def test_openfeature_variants() -> None:
    attributes: dict[str, Any] = OPENFEATURE["attributes"]
    assert read("openfeature", {"name": "other", "attributes": {"a": 1}}) == IGNORED
    assert read("openfeature", OPENFEATURE | {"attributes": attributes | {"feature_flag.result.reason": "error"}}) == IGNORED
    assert read("openfeature", OPENFEATURE | {"attributes": attributes | {"feature_flag.context.id": ""}}) == ["missing_field"]
    assert read("openfeature", OPENFEATURE | {"timestamp": None}) == ["missing_field"]
    nested = {"feature_flag.result.variant": {"name": "treatment"}}
    assert read("openfeature", OPENFEATURE | {"attributes": attributes | nested}) == ["bad_label"]
