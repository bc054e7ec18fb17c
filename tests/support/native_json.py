"""Events as native JSON, the way a sender writes them."""

from __future__ import annotations

import msgspec

from streammetrics.events.model import Event, Exposure, Feedback


def native_json(event: Event) -> bytes:
    """An event as a sender writes it."""
    if isinstance(event, Feedback):
        return msgspec.json.encode({"type": "feedback", **msgspec.structs.asdict(event)})
    if isinstance(event, Exposure):
        return msgspec.json.encode({"type": "exposure", **msgspec.structs.asdict(event)})
    written = {"type": "impression", "impression_id": event.impression_id, "user_id": event.user_id, "ts": event.ts}
    written |= {"experiments": dict(event.experiments), "segments": dict(event.segments), "items": event.items}
    if event.positions is not None:
        items = [{"id": item, "position": position} for item, position in zip(event.items, event.positions, strict=True)]
        written |= {"fragment": True, "items": items}
    return msgspec.json.encode(written)
