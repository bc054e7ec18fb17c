"""Ordinary records of the formats that shipped readers read."""

from __future__ import annotations

from typing import Any, Final

Table = dict[str, Any]
NOON: Final = 1_772_366_400_000
ISO: Final = "2026-03-01T12:00:00.000Z"
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

NATIVE: Final[Table] = {"type": "feedback", "user_id": "u", "ts": NOON, "item_id": "a", "action": "click"}
SHOWN: Final[Table] = {"application": "shop", "action_name": "impression", "query_id": "q", "client_id": "u", "timestamp": ISO} | {
    "event_attributes": {"object": {"object_id": "a"}, "position": {"ordinal": 1}},
}
LINE: Final = b"17\tU7\t3/1/2026 12:00:00 PM\tN8 N9\tN1-0 N2-1"

RECORDS: Final[dict[str, list[Any]]] = {
    "mind": [LINE],
    "ubi": [
        SHOWN,
        SHOWN | {"action_name": "click"},
        {"query_id": "q", "client_id": "u", "user_query": "lamp", "query_response_hit_ids": ["a", "b"], "timestamp": ISO},
        {"index": {"_index": "ubi_events"}},
        {"_index": "ubi_events", "_source": SHOWN},
    ],
    "debezium": [{"op": "c", "after": NATIVE}, {"payload": {"op": "u", "before": NATIVE, "after": NATIVE}}, {"op": "d", "after": None}],
    "connect": [{"schema": None, "payload": NATIVE}],
    "cloudevents": [{"specversion": "1.0", "id": "1", "source": "/shop", "type": "click", "data": NATIVE}, NATIVE],
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
    "openfeature": [{"timestamp": ISO, "attributes": FLAG}, {"attributes": {"feature_flag.result.reason": "error"}}],
    "opentelemetry": [
        {"timeUnixNano": f"{NOON}000123", "eventName": "feature_flag.evaluation"}
        | {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in FLAG.items()]},
    ],
}
"""Records by the reader that reads them."""
