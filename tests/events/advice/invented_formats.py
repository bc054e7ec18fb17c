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
    "temperatures, which are no lists": (
        [{"sensor": "t1", "at": NOON, "celsius": 21.5}, {"sensor": "t2", "at": NOON, "celsius": 20}],
        (set(), set()),
    ),
    "flat rows with numbers as columns": ([{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 6}], (set(), set())),
}
