"""Mappings of many forms, and ordinary records of them and of the presets."""

from __future__ import annotations

from typing import Any, Final

Table = dict[str, Any]
NOON: Final = 1_772_366_400_000
ISO: Final = "2026-03-01T12:00:00.000Z"
LIST: Final[Table] = {"kind": "impression", "user_id": "user", "ts": "time", "impression_id": "id", "items": "skus"}
CLICK: Final[Table] = {"kind": "feedback", "user_id": "user", "ts": "time", "item_id": "sku", "action": {"value": "click"}}
LABELS: Final[Table] = {"experiments": {"ranker": "ab.ranker", "shelf": "shelf"}, "segments": "page"}
SHOWN: Final[Table] = {"user": "u", "time": NOON, "id": "r", "skus": ["a", "b"], "ab": {"ranker": "new"}, "shelf": 2, "page": {"os": "x"}}
CLICKED: Final[Table] = {"user": "u", "time": NOON, "sku": "a", "id": "r", "seconds": 1.5, "what": "watch"}
OBJECTS: Final[Table] = SHOWN | {"skus": [{"sku": "a", "place": 1, "team": "x"}, {"sku": "b", "place": 4, "team": "y"}]}

TABLES: Final[dict[str, list[Table]]] = {
    "texts": [LIST | LABELS],
    "absent": [LIST | LABELS | {"absent": ["-", "(not set)"], "user_id": ["login", "user"], "experiments": "ab"}],
    "objects": [LIST | LABELS | {"item_id": ["sku", "id"], "item_position": "place"}],
    "ordered": [LIST | {"item_id": "sku", "item_position": ["place", {"order": True}]}],
    "teams": [LIST | {"item_id": "sku", "item_position": ["place", {"value": 0}], "item_team": "team"}],
    "composed": [LIST | {"impression_id": "{user}/{time}%", "items": ["products", "skus", {"value": []}]}],
    "parts": [
        {key: value for key, value in (LIST | {"item_id": "sku", "item_position": "place", "fragment": True}).items() if key != "items"}
    ],
    "pages": [LIST | {"item_id": "sku", "page_start": {"page": "page", "size": "per", "first": 1}}],
    "separated": [LIST | {"item_separator": "|"}],
    "deep": [CLICK | {"when": {"a.kind": {"not": "x"}}, "item_id": ["a.b.c", {"value": "none"}]}],
    "click": [CLICK | {"impression_id": "id", "value": "seconds", "action": "what"}],
    "choices": [CLICK | {"impression_id": ["list", "id"], "value": ["seconds", {"value": 0}], "action": ["what", {"value": "click"}]}],
    "renamed": [
        CLICK | {"action": {"path": "what", "rename": {"watch": "play", "skip": ""}}, "item_id": {"path": "sku", "rename": {"a": "b"}}}
    ],
    "seconds": [CLICK | {"ts_unit": "s"}],
    "units": [CLICK | {"ts_unit": "s", "value": "time"}],
    "several": [CLICK | {"items": "skus", "item_id": "sku", "item_value": "place", "item_action": "team", "action": "what"}],
    "shared": [
        LIST | {"segments": {"user": "user", "id": "id"}, "when": {"user": "u"}},
        CLICK | {"value": "time", "impression_id": "{time}"},
    ],
    "kinds": [
        LIST | {"when": {"kind": "list", "live": True}},
        CLICK | {"when": {"kind": ["click", "watch"], "bot": {"present": False}}, "action": "kind"},
        CLICK | {"when": {"kind": {"not": "list"}, "n": [1, 2]}},
        {"kind": "ignore", "when": {"kind": "page"}},
    ],
    "empty": [
        LIST | {"when": {"kind": {"present": False}, "skus": {"empty": False}}, "experiments": "ab.ranker", "segments": ["page", "os"]},
        LIST | {"when": {"kind": {"present": False}, "skus": {"empty": True}}, "items": ["none", {"value": []}]},
        CLICK | {"when": {"kind": "click", "what": {"present": False}}, "item_id": ["what.id", {"value": "none"}]},
        {"kind": "ignore", "when": {"kind": "click", "what": {"present": True}}},
    ],
    "inside": [CLICK | {"when": {"tags[k=a].v": {"not": "x"}}, "item_id": "tags[0].v", "action": "tags[k=a].v"}],
}
"""Mappings by what is special about them."""

PRODUCTS: Final = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"
ECOMMERCE: Final = "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
TRACK: Final[Table] = {"type": "track", "messageId": "m", "anonymousId": "u", "timestamp": ISO}
GA4: Final[Table] = {"event_timestamp": "1772366400000123", "user_pseudo_id": "1.2", "device": {"category": "mobile"}}
RANKED: Final[Table] = {"timestamp": str(NOON), "user": "u", "session": "s", "id": "r"}
ALGOLIA: Final[Table] = {"index": "products", "userToken": "u", "queryID": "q", "timestamp": NOON, "objectIDs": ["a", "b"]}
SNOWPLOW: Final[Table] = {"event": "unstruct", "event_name": "snowplow_ecommerce_action", "event_id": "e", "domain_userid": "d"} | {
    "derived_tstamp": ISO,
    PRODUCTS: [{"id": "a", "price": 3.5, "position": 1}, {"id": "b", "price": 2, "position": 2}],
}
ROW: Final[Table] = {"USER_ID": "u", "ITEM_ID": "b", "TIMESTAMP": "1772366400", "EVENT_TYPE": "watch", "EVENT_VALUE": "31"}
ELASTIC: Final[Table] = {"@timestamp": ISO, "session": {"id": "s"}, "user": {"id": "u"}}
FLAG: Final[Table] = {"feature_flag.key": "f", "feature_flag.context.id": "u", "feature_flag.result.variant": "on"}

RECORDS: Final[dict[str, list[Table]]] = {
    "texts": [SHOWN, SHOWN | {"user": 7, "skus": [1, "b"], "time": ISO, "ab": {}}],
    "absent": [SHOWN | {"login": "(not set)"}, SHOWN | {"login": "me", "ab": {"x": "-", "y": True}}],
    "objects": [OBJECTS, OBJECTS | {"skus": [{"id": "a", "place": 9}, {"sku": "b", "place": "1"}]}],
    "ordered": [OBJECTS, OBJECTS | {"skus": [{"sku": "a"}, {"sku": "b"}]}],
    "teams": [OBJECTS, OBJECTS | {"skus": [{"sku": "b", "place": 2}, {"sku": "a", "team": "x"}]}],
    "composed": [SHOWN, SHOWN | {"products": ["c"], "user": 7}],
    "parts": [SHOWN | {"sku": "a", "place": 3}, SHOWN | {"sku": 7, "place": "0"}],
    "pages": [OBJECTS | {"page": 2, "per": 20}, OBJECTS | {"page": 1, "per": None}, OBJECTS | {"page": "3", "per": "20"}],
    "separated": [SHOWN, SHOWN | {"skus": "a | b|c"}],
    "deep": [
        {"user": "u", "time": NOON, "a": None},
        {"user": "u", "time": NOON, "a": {"b": None}},
        {"user": "u", "time": NOON, "a": {"b": {"c": "x"}}},
    ],
    "click": [CLICKED, CLICKED | {"user": 7, "seconds": 2, "id": None}, CLICKED | {"seconds": "3.5", "id": ""}],
    "choices": [CLICKED, {"user": "u", "time": ISO, "sku": "a"}],
    "renamed": [CLICKED, CLICKED | {"what": "other"}],
    "seconds": [CLICKED | {"time": 1772366400.123456}, CLICKED | {"time": "1772366400.5"}],
    "units": [CLICKED | {"time": 1772366400, "seconds": 1}, CLICKED | {"time": "1772366400"}],
    "several": [CLICKED | {"skus": [{"sku": "a", "place": 3.5}, {"sku": "b", "team": "buy"}]}],
    "shared": [SHOWN | CLICKED, SHOWN | CLICKED | {"user": "v"}],
    "kinds": [SHOWN | {"kind": "list", "live": True}, CLICKED | {"kind": "watch"}, CLICKED | {"kind": "x", "n": 2}, {"kind": "page"}],
    "empty": [
        SHOWN,
        SHOWN | {"skus": [], "ab": {"ranker": {"x": "y"}}},
        SHOWN | {"ab": {"ranker": True}, "page": 2, "skus": ["a"]},
        {"kind": "click", "user": "u", "time": NOON, "what": {"id": "a"}},
        {"kind": "click", "user": "u", "time": NOON},
    ],
    "inside": [CLICKED | {"tags": [{"k": "b", "v": "i"}, {"k": "a", "v": "buy"}]}],
    "segment": [
        TRACK
        | {
            "event": "Product List Viewed",
            "properties": {"list_id": "l", "products": [{"product_id": "a", "position": 1}, {"sku": "b", "position": 2}]},
        },
        TRACK | {"event": "Product Clicked", "properties": {"product_id": "a"}},
        TRACK | {"event": "Order Completed", "properties": {"products": [{"product_id": "a", "price": 3.5}, {"sku": "b"}]}},
        {"type": "page"},
    ],
    "ga4": [
        GA4
        | {
            "event_name": "view_item_list",
            "items": [{"item_id": "a", "item_list_index": "0"}, {"item_id": "(not set)", "item_name": "b", "item_list_index": 1}],
        },
        GA4 | {"event_name": "select_item", "items": [{"item_id": "a", "price": 5.5}]},
        GA4 | {"event_name": "page_view"},
    ],
    "metarank": [
        RANKED | {"event": "ranking", "items": [{"id": "a"}, {"id": "b"}]},
        RANKED | {"event": "interaction", "ranking": "r", "type": "click", "item": "a", "user": None},
        {"event": "item"},
    ],
    "algolia": [
        ALGOLIA | {"eventType": "view"},
        ALGOLIA | {"eventType": "click"},
        ALGOLIA | {"eventType": "conversion", "eventSubtype": "addToCart", "queryID": None},
    ],
    "snowplow": [SNOWPLOW | {ECOMMERCE: {"type": "list_view", "name": "deals"}}, SNOWPLOW | {ECOMMERCE: {"type": "list_click"}}],
    "personalize": [ROW, ROW | {"IMPRESSION": "a|b"}, ROW | {"IMPRESSION": ["a", "b"], "RECOMMENDATION_ID": "r", "TIMESTAMP": 1772366400}],
    "elastic": [
        ELASTIC
        | {"event": {"action": "search"}, "search": {"search_application": "web", "results": {"items": [{"document": {"id": "a"}}]}}},
        ELASTIC | {"event": {"action": "search_click"}, "document": {"id": "a"}},
        ELASTIC | {"event": {"action": "page_view"}},
    ],
    "mind": [{"user_id": "u", "time": ISO, "impression_id": "1", "impressions": ["a", "b"], "clicked": ["a"]}],
    "openfeature": [{"timestamp": ISO, "attributes": FLAG}, {"attributes": {"feature_flag.result.reason": "error"}}],
    "otel": [
        {"timeUnixNano": f"{NOON}000123", "eventName": "feature_flag.evaluation"}
        | {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in FLAG.items()]},
    ],
}
"""Records by the mapping or the preset that reads them. The typed parser takes all of them."""
