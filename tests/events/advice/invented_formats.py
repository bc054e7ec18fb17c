"""Ordinary formats, made up for these tests: records of each, and the events that a right mapping makes of them."""

from __future__ import annotations

from typing import Any, Final

Record = dict[str, Any]
Expected = tuple[set[tuple[str, str, tuple[str, ...]]], set[tuple[str, str]]]
"""The lists (list id or empty for a composed one, user, items) and the reactions (user, item)."""

NOON: Final = 1_772_366_400
ISO: Final = "2026-03-01T12:00:0{}Z"

FORMATS: Final[dict[str, tuple[list[Record], Expected]]] = {
    "recipes in a member's feed": (
        [
            {"topic": "feed.rendered", "member": "m1", "when": ISO.format(0), "slate": "s1", "recipes": [{"code": "r1"}, {"code": "r2"}]},
            {"topic": "feed.rendered", "member": "m2", "when": ISO.format(1), "slate": "s2", "recipes": [{"code": "r3"}, {"code": "r1"}]},
            {"topic": "recipe.opened", "member": "m1", "when": ISO.format(5), "slate": "s1", "code": "r2"},
            {"topic": "recipe.opened", "member": "m2", "when": ISO.format(6), "slate": "s2", "code": "r3"},
        ],
        ({("s1", "m1", ("r1", "r2")), ("s2", "m2", ("r3", "r1"))}, {("m1", "r2"), ("m2", "r3")}),
    ),
    "jobs, with everything one level down": (
        [
            {"head": {"kind": "jobs", "t": NOON}, "body": {"seeker": {"profile": "p1"}, "trace": "x1", "openings": ["j1", "j2"]}},
            {"head": {"kind": "jobs", "t": NOON + 9}, "body": {"seeker": {"profile": "p1"}, "trace": "x2", "openings": ["j4", "j2"]}},
            {"head": {"kind": "apply", "t": NOON + 5}, "body": {"seeker": {"profile": "p1"}, "trace": "x1", "opening": "j2"}},
        ],
        ({("x1", "p1", ("j1", "j2")), ("x2", "p1", ("j4", "j2"))}, {("p1", "j2")}),
    ),
    "songs without a kind": (
        [
            {"listener_account": 11, "stamp": NOON * 1_000, "row": "a1", "tracks": [{"song": 501, "slot": 0}, {"song": 502, "slot": 1}]},
            {
                "listener_account": 12,
                "stamp": NOON * 1_000 + 7,
                "row": "a2",
                "tracks": [{"song": 502, "slot": 0}, {"song": 777, "slot": 1}],
            },
            {"listener_account": 11, "stamp": NOON * 1_000 + 900, "row": "a1", "song": 502, "seconds": 41.5},
        ],
        ({("a1", "11", ("501", "502")), ("a2", "12", ("502", "777"))}, {("11", "502")}),
    ),
    "hotels with JSON in a text": (
        [
            {
                "name": "hotels_shown",
                "guest": "g1",
                "ts": ISO.format(0),
                "payload": '{"request_id":"q1","hotels":[{"ref":"h1"},{"ref":"h2"}]}',
            },
            {
                "name": "hotels_shown",
                "guest": "g2",
                "ts": ISO.format(1),
                "payload": '{"request_id":"q2","hotels":[{"ref":"h2"},{"ref":"h9"}]}',
            },
            {"name": "hotel_clicked", "guest": "g1", "ts": ISO.format(3), "payload": '{"request_id":"q1","ref":"h2"}'},
        ],
        ({("q1", "g1", ("h1", "h2")), ("q2", "g2", ("h2", "h9"))}, {("g1", "h2")}),
    ),
    "articles in microseconds": (
        [
            {"evt": "front_page", "reader": "z1", "us": NOON * 10**6, "page_view": "v1", "teasers": ["n1", "n2", "n3"], "variant": "new"},
            {"evt": "front_page", "reader": "z2", "us": NOON * 10**6 + 1, "page_view": "v2", "teasers": ["n9", "n2"], "variant": "old"},
            {"evt": "teaser_tap", "reader": "z1", "us": NOON * 10**6 + 5, "page_view": "v1", "teaser": "n3"},
            {"evt": "heartbeat", "reader": "z1", "us": NOON * 10**6 + 9},
        ],
        ({("v1", "z1", ("n1", "n2", "n3")), ("v2", "z2", ("n9", "n2"))}, {("z1", "n3")}),
    ),
    "parts found by a garage": (
        [
            {
                "op": "find",
                "client": "c1",
                "at": "2026-03-01 12:00:00",
                "search": "k1",
                "found": [{"part_no": "p1", "price": 9}, {"part_no": "p2", "price": 9}],
            },
            {
                "op": "find",
                "client": "c2",
                "at": "2026-03-01 12:01:00",
                "search": "k2",
                "found": [{"part_no": "p7", "price": 2}, {"part_no": "p2", "price": 9}],
            },
            {"op": "order", "client": "c1", "at": "2026-03-01 12:02:00", "search": "k1", "part_no": "p2", "amount": 4},
        ],
        ({("k1", "c1", ("p1", "p2")), ("k2", "c2", ("p7", "p2"))}, {("c1", "p2")}),
    ),
    "films, where each record has an id of its own": (
        [
            {"uuid": "e1", "type": "shelf", "viewer": "w1", "ts": NOON, "shelf_list": "l1", "films": [{"film": "f1"}, {"film": "f2"}]},
            {"uuid": "e2", "type": "shelf", "viewer": "w2", "ts": NOON + 2, "shelf_list": "l2", "films": [{"film": "f5"}, {"film": "f2"}]},
            {"uuid": "e3", "type": "start", "viewer": "w1", "ts": NOON + 4, "shelf_list": "l1", "film": "f1"},
        ],
        ({("l1", "w1", ("f1", "f2")), ("l2", "w2", ("f5", "f2"))}, {("w1", "f1")}),
    ),
    "ads without an id of the list": (
        [
            {"event": "served", "cookie": "k1", "time": NOON * 1_000, "offers": ["o1", "o2"]},
            {"event": "served", "cookie": "k2", "time": NOON * 1_000 + 4, "offers": ["o3", "o2"]},
            {"event": "click", "cookie": "k2", "time": NOON * 1_000 + 9, "offer": "o3"},
        ],
        ({("", "k1", ("o1", "o2")), ("", "k2", ("o3", "o2"))}, {("k2", "o3")}),
    ),
    "documents with short names and fractions of a second": (
        [
            {"ev": "impr", "t": NOON + 0.25, "u": 1001, "rid": "r1", "docs": ["d1", "d2"], "os": "ios"},
            {"ev": "clk", "t": NOON + 4.5, "u": 1001, "rid": "r1", "doc": "d2", "os": "ios"},
            {"ev": "impr", "t": NOON + 9.5, "u": 1001, "rid": "r2", "docs": ["d3", "d2"], "os": "ios"},
            {"ev": "impr", "t": NOON + 10.5, "u": 1002, "rid": "r3", "docs": ["d3", "d1"], "os": "web"},
        ],
        ({("r1", "1001", ("d1", "d2")), ("r2", "1001", ("d3", "d2")), ("r3", "1002", ("d3", "d1"))}, {("1001", "d2")}),
    ),
    "listings and orders, each with an event id": (
        [
            {"id": "e1", "event": "plp.viewed", "at": ISO.format(0), "customer": {"id": "c1"}, "plp": {"id": "l1", "products": ["a", "b"]}},
            {"id": "e2", "event": "plp.viewed", "at": ISO.format(1), "customer": {"id": "c2"}, "plp": {"id": "l2", "products": ["b", "c"]}},
            {"id": "e3", "event": "checkout", "at": ISO.format(5), "customer": {"id": "c1"}, "basket": ["a", "b"]},
        ],
        ({("l1", "c1", ("a", "b")), ("l2", "c2", ("b", "c"))}, {("c1", "a"), ("c1", "b")}),
    ),
    "products, one event for each": (
        [
            {"event": "product_impression", "user": "u1", "page": "v1", "product_id": "a", "slot": 1, "ts": NOON},
            {"event": "product_impression", "user": "u1", "page": "v1", "product_id": "b", "slot": 2, "ts": NOON},
            {"event": "product_impression", "user": "u2", "page": "v2", "product_id": "b", "slot": 1, "ts": NOON},
            {"event": "product_click", "user": "u1", "page": "v1", "product_id": "b", "slot": 2, "ts": NOON + 2},
        ],
        ({("v1", "u1", ("a", "b")), ("v2", "u2", ("b",))}, {("u1", "b")}),
    ),
    "rows of a training log, clicked or not": (
        [
            {"request_id": "q1", "user_id": "u1", "item_id": "a", "rank": 0, "clicked": 0, "timestamp": NOON},
            {"request_id": "q1", "user_id": "u1", "item_id": "b", "rank": 1, "clicked": 1, "timestamp": NOON},
            {"request_id": "q2", "user_id": "u2", "item_id": "b", "rank": 0, "clicked": 0, "timestamp": NOON},
        ],
        ({("q1", "u1", ("a", "b")), ("q2", "u2", ("b",))}, {("u1", "b")}),
    ),
    "rows of a CSV file, without a known name of the item": (
        [
            {"session_id": "s1", "query": "q1", "doc_no": "a", "rank": "1", "click": "0", "time": ISO.format(0)},
            {"session_id": "s1", "query": "q1", "doc_no": "b", "rank": "2", "click": "1", "time": ISO.format(0)},
            {"session_id": "s2", "query": "q2", "doc_no": "b", "rank": "1", "click": "0", "time": ISO.format(1)},
            {"session_id": "s2", "query": "q2", "doc_no": "c", "rank": "2", "click": "0", "time": ISO.format(1)},
        ],
        ({("q1", "s1", ("a", "b")), ("q2", "s2", ("b", "c"))}, {("s1", "b")}),
    ),
    "a page with several shelves": (
        [
            {"name": "home", "user": "u1", "ts": NOON, "page": "v1", "shelves": [{"shelf": "new", "eps": ["a", "b"]}]},
            {"name": "home", "user": "u2", "ts": NOON, "page": "v2", "shelves": [{"shelf": "new", "eps": ["a", "c"]}]},
            {"name": "played", "user": "u1", "ts": NOON, "page": "v1", "ep": "b"},
        ],
        (set(), set()),
    ),
    "hits with their clicks, and facets": (
        [
            {"searchId": "q1", "userId": "u1", "ts": NOON, "facets": ["brand", "size", "hue"], "hits": [{"id": "a"}, {"id": "b"}]}
            | {"clickedIds": ["b"]},
            {"searchId": "q2", "userId": "u2", "ts": NOON, "facets": ["brand", "size", "hue"], "hits": [{"id": "c"}, {"id": "b"}]}
            | {"clickedIds": []},
            {"type": "buy", "searchId": "q2", "userId": "u2", "ts": NOON + 3, "hit": "c"},
        ],
        ({("q1", "u1", ("a", "b")), ("q2", "u2", ("c", "b"))}, {("u1", "b"), ("u2", "c")}),
    ),
    "videos in a feed of one session": (
        [
            {"kind": "FEED", "profile": "p1", "time": ISO.format(0), "feedSession": "f1", "videos": [{"video": "a"}, {"video": "b"}]},
            {"kind": "FEED", "profile": "p1", "time": ISO.format(4), "feedSession": "f1", "videos": [{"video": "c"}, {"video": "d"}]},
            {"kind": "PROGRESS", "profile": "p1", "time": ISO.format(5), "feedSession": "f1", "video": "c", "seconds": 9},
        ],
        ({("", "p1", ("a", "b")), ("", "p1", ("c", "d"))}, {("p1", "c")}),
    ),
    "prices, where nothing tells a position": (
        [
            {"event": "offer_shown", "user": "u1", "page": "v1", "offer": "a", "ts": NOON},
            {"event": "offer_shown", "user": "u1", "page": "v1", "offer": "b", "ts": NOON},
        ],
        (set(), set()),
    ),
    "temperatures, which are no lists": (
        [{"sensor": "t1", "at": NOON, "celsius": 21.5}, {"sensor": "t2", "at": NOON, "celsius": 20}],
        (set(), set()),
    ),
    "flat rows with numbers as columns": ([{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 6}], (set(), set())),
}
