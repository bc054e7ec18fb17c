"""Segment and RudderStack: the track calls of the ecommerce specification, version 2.

https://segment.com/docs/connections/spec/ecommerce/v2/

Needs `anonymousId` or `userId`, `timestamp` or `originalTimestamp`, `messageId` and `properties.products` of lists. The user is the
anonymousId, because it stays the same when a visitor logs in. A click has no list id: it counts for the user's latest list with the
product. To compare variants, add `"experiments": {"ranker": said["variant"]}` to the list.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore

LISTS = ("Product List Viewed", "Product List Filtered")
ACTIONS = {"Product Clicked": "click", "Product Added": "add_to_cart", "Product Added to Wishlist": "add_to_wishlist"}


def read(record: Record) -> Iterator[Any]:
    call = record.json()
    if call["type"] != "track":
        yield ignore(call["type"])
        return
    name, said = call.get("event"), call.get("properties") or {}
    shared = {"user_id": first(call, "anonymousId", "userId"), "ts": first(call, "timestamp", "originalTimestamp")}
    if name in LISTS:
        items = [{"id": first(product, "product_id", "sku"), "position": product.get("position")} for product in said["products"]]
        segments = {"list": first(said, "list_id"), "category": first(said, "category")}
        yield {"type": "impression", "impression_id": call["messageId"], "items": items, "segments": segments, **shared}
    elif name in ACTIONS:
        yield {"type": "feedback", "item_id": first(said, "product_id", "sku"), "action": ACTIONS[name], **shared}
    elif name == "Order Completed":
        for product in said["products"]:
            price = first(product, "price")
            value = None if price is None else float(price)
            yield {"type": "feedback", "item_id": first(product, "product_id", "sku"), "action": "purchase", "value": value, **shared}
    else:
        yield ignore(str(name))
