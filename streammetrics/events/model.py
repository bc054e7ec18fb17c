"""The kinds of events (impressions, feedback and exposures), and the limits of one event. Values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeAlias, final, get_args

import msgspec
from msgspec import Meta

from streammetrics.errors import MalformedEvent

TS_MAX = 253_402_300_799_999
"""Last millisecond of the year 9999 (UTC). The first valid time is 0."""

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""(name, value) pairs sorted by name."""


Time: TypeAlias = Annotated[int, Meta(ge=0, le=TS_MAX)]
"""The type of an event time. Only the parser enforces it."""


@final
class Impression(msgspec.Struct, frozen=True, gc=False):
    """One ranked list, or a fragment of one, shown to one user at one time.

    `items` are in rank order (best first). If positions are places, an empty text stands at each place that shows no item, except after
    the last one; a fragment has no such texts, and its positions begin at 0. `positions` is None for a whole list. For a fragment it has
    each item's position, ascending. `teams` has the team that drafted each item, or the empty string. It is empty for a list without
    teams. `label_notes` has the reason for each label that was dropped, and `variant_as_text` for each variant
    that was a number or a boolean and is used as text. Each experiment whose
    variant is null is in them as `null_variant:` and its name. The list counts without its dropped labels.
    """

    impression_id: str
    user_id: str
    ts: int
    items: tuple[str, ...]
    experiments: Labels = ()
    segments: Labels = ()
    positions: tuple[int, ...] | None = None
    teams: tuple[str, ...] = ()
    label_notes: tuple[str, ...] = ()


@final
class Feedback(msgspec.Struct, frozen=True, gc=False):
    """One reaction of a user to one item. `impression_id` is None if the sender does not know the list."""

    user_id: str
    ts: int
    item_id: str
    action: str
    value: float | None = None
    impression_id: str | None = None


@final
class Exposure(msgspec.Struct, frozen=True, gc=False):
    """The variant of an experiment that a user was given at one time, such as the evaluation of a feature flag."""

    user_id: str
    ts: int
    experiment: str
    variant: str


Event: TypeAlias = Impression | Feedback | Exposure
EVENT_TYPES: Final = frozenset(get_args(Event))


@final
class Elsewhere(msgspec.Struct, frozen=True, gc=False):
    """What is left of an event that another process counts: it only moves the time of its input."""

    user_id: str
    ts: int


Decoder: TypeAlias = Callable[[bytes | None], Sequence[Event | MalformedEvent]]
"""Decodes one record into its events and its malformed parts, in their order. It never raises for bad bytes."""


class EventLimits(msgspec.Struct, frozen=True):
    """Limits of one event. An event beyond a limit is rejected as a whole and counted, never cut. Labels are dropped one by one.

    `exposures`: whether exposures are read; without, they are malformed.
    `first_place`: None if positions give only the order of items. Otherwise they are the places of items, and this is that of the first.
    """

    event_bytes_max: int = 262_144
    items_max: int = 1_000
    experiments_max: int = 16
    segments_max: int = 32
    id_chars_max: int = 512
    label_chars_max: int = 128
    numeric_ids: bool = False
    first_place: int | None = None
    exposures: bool = False
