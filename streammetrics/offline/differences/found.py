"""What a comparison found: plain values, which are also its JSON. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

SideName: TypeAlias = Literal["online", "offline"]


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting that changes numbers and differs. A value is None if the report of that side does not have it."""

    name: str
    online: Any
    offline: Any
    changes: str


@dataclass(frozen=True, slots=True)
class ChangedCount:
    """A counter that differs. `explains` says what its difference can do to the numbers. `reason` is that of the report."""

    reason: str
    online: int
    offline: int
    explains: str


@dataclass(frozen=True, slots=True)
class ChangedInput:
    """An input whose number of events differs. The name is that of the topic, or of a file without a topic."""

    name: str
    online: int
    offline: int


@dataclass(frozen=True, slots=True)
class SideSpan:
    """The event time that one side covers, in epoch ms. Values are None where the report or the panes do not say.

    `first_pane_ms` and `last_pane_ms` are starts of final panes; `only_here` counts the panes outside the common span, and
    `lists_only_here` their lists.
    """

    watermark_ms: int | None
    final_ms: int | None
    ended: bool
    first_pane_ms: int | None = None
    last_pane_ms: int | None = None
    only_here: int = 0
    lists_only_here: int = 0


@dataclass(frozen=True, slots=True)
class ChangedNumber:
    """One number of a group. Of panes and counts it is an integer; of totals, windows and experiments it may be a mean."""

    name: str
    online: float | None
    offline: float | None


@dataclass(frozen=True, slots=True)
class ChangedGroup:
    """A group with numbers that differ, in the panes of the common span, in the totals, a window or an experiment.

    `numbers` are sums over all panes, so they may be empty if differences of single panes cancel. `offline_more` and `offline_fewer` are
    the lists that offline has more in some panes, and fewer in others. `panes` are the starts of the panes that differ, and
    `value_panes` those of them with as many lists on both sides. `explained` says what may explain it; `unexplained` what remains, None if
    nothing.
    """

    place: str
    experiment: str
    variant: str
    segments: str
    numbers: tuple[ChangedNumber, ...]
    offline_more: int = 0
    offline_fewer: int = 0
    panes: tuple[int, ...] = ()
    value_panes: tuple[int, ...] = ()
    explained: tuple[str, ...] = ()
    unexplained: str | None = None
    unexplained_pane_ms: int | None = None
    """The start of the first pane with something unexplained; None without panes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDifferences:
    """All that differs. `equal` is about the numbers: settings alone do not make reports different.

    `common_from_ms` and `common_to_ms` bound the panes that were compared. `compared` says what was compared, `left_out` what was not and
    why. `pane_ms` is None without panes on both sides.
    """

    equal: bool
    online: SideSpan
    offline: SideSpan
    common_from_ms: int | None
    common_to_ms: int | None
    pane_ms: int | None
    settings: tuple[ChangedSetting, ...]
    inputs: tuple[ChangedInput, ...]
    counters: tuple[ChangedCount, ...]
    counters_cover_the_span: bool
    groups: tuple[ChangedGroup, ...]
    compared: tuple[str, ...]
    left_out: tuple[str, ...]
