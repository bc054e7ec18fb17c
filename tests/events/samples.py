"""Shared sample events, and Hypothesis strategies of valid events."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from streammetrics.events import TS_MAX

IMPRESSION: dict[str, Any] = {
    "type": "impression",
    "impression_id": "r-81",
    "user_id": "u7",
    "ts": 1732183200123,
    "items": ["a", "b", "c"],
    "experiments": {"ranker-v7": "treatment"},
    "segments": {"surface": "home"},
}
FEEDBACK: dict[str, Any] = {
    "type": "feedback",
    "user_id": "u7",
    "ts": 1732183231877,
    "impression_id": "r-81",
    "item_id": "b",
    "action": "watch",
    "value": 48.0,
}
EXPOSURE: dict[str, Any] = {
    "type": "exposure",
    "user_id": "u7",
    "ts": 1732183199000,
    "experiment": "ranker-v7",
    "variant": "treatment",
}


def sent(event: dict[str, Any], **changes: Any) -> bytes:
    """Return an event as JSON with some fields changed. The value ... removes a field."""
    changed = {name: value for name, value in (event | changes).items() if value is not ...}
    return json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()


def spliced(event: dict[str, Any], field: str, text: str) -> bytes:
    """Return an event whose field is the given raw JSON text."""
    return sent(event, **{field: ...})[:-1] + f',"{field}":{text}}}'.encode()


def texts(chars_max: int, chars_min: int = 1) -> st.SearchStrategy[str]:
    """Texts without surrogates and control characters."""
    return st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=chars_min, max_size=chars_max)


ids = texts(20)
labels = st.dictionaries(texts(10), texts(10), max_size=4)
times = st.integers(0, TS_MAX)
positions = st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=8)

exposure_objects = st.fixed_dictionaries(
    {"type": st.just("exposure"), "user_id": ids, "ts": times, "experiment": texts(10), "variant": texts(10)},
    optional={"unknown_field": st.none() | ids},
)
feedback_objects = st.fixed_dictionaries(
    {"type": st.just("feedback"), "user_id": ids, "ts": times, "item_id": ids, "action": texts(10)},
    optional={
        "value": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "impression_id": st.none() | ids,
        "unknown_field": st.none() | ids,
    },
)
impression_objects = st.fixed_dictionaries(
    {"type": st.just("impression"), "impression_id": ids, "user_id": ids, "ts": times, "items": st.lists(ids, max_size=8)},
    optional={"experiments": st.none() | labels, "segments": st.none() | labels, "fragment": st.none() | st.just(False)},
)
