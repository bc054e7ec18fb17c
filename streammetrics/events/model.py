"""The two events and what may be wrong with one. Values only: how bytes become events lives in the sibling modules."""

from __future__ import annotations

from typing import Annotated, TypeAlias, final

import msgspec
from msgspec import Meta

TS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999 (UTC), in epoch milliseconds; the first is 0."""

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""(name, value) pairs sorted by name."""


Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Time: TypeAlias = Annotated[int, Meta(ge=0, le=TS_MAX)]
"""A text that is not empty, and an event's time. Only a parser holds values against these types."""


@final
class Impression(msgspec.Struct, frozen=True, gc=False):
    """One ranked list, or a fragment of one, shown to one user at one time.

    `items` are in rank order (best first). `positions` is None for a whole list; for a fragment it gives each item's
    position, ascending. `teams` has the team that drafted each item, empty for an item of no team; it is empty itself for
    a list without teams.
    """

    impression_id: str
    user_id: str
    ts: int
    items: tuple[str, ...]
    experiments: Labels = ()
    segments: Labels = ()
    positions: tuple[int, ...] | None = None
    teams: tuple[str, ...] = ()


@final
class Feedback(msgspec.Struct, tag="feedback", tag_field="type", frozen=True, gc=False):
    """One reaction of a user to one item. `impression_id` is None when the sender does not know the list.

    Its fields are those of the native schema, and their types what that asks of them whatever the limits are, so that the
    parser makes most feedback itself, and nothing is copied.
    """

    user_id: Text
    ts: Time
    item_id: Text
    action: Text
    value: float | None = None
    impression_id: Text | None = None


Event: TypeAlias = Impression | Feedback


class EventLimits(msgspec.Struct, frozen=True):
    """What one event may hold; anything beyond is refused whole and counted, never cut."""

    event_bytes_max: int = 262_144
    items_max: int = 1_000
    experiments_max: int = 16
    segments_max: int = 32
    id_chars_max: int = 512
    label_chars_max: int = 128
