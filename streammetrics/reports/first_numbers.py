"""What the numbers of a young stream still wait for: its first whole pane, its first final lists, its first verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from streammetrics.windows.panes import WindowRules


@dataclass(frozen=True, slots=True)
class FirstNumber:
    """A number that is still to come, and when (epoch ms of event time). `seconds` is how far the watermark is before that; at least 0.

    `live`: the first pane ends; until then live windows have the lists of the pane that is open. `final`: its lists are final.
    """

    number: Literal["live", "final", "verdict"]
    at_ms: int
    seconds: float


def first_numbers(first_ms: int, watermark_ms: int, rules: WindowRules, verdict_ms: int | None) -> Iterator[FirstNumber]:
    """Yield what is still to come, the earliest first.

    first_ms: the start of the first pane with lists. verdict_ms: the earliest time of a first verdict; None: no verdict is waited for.

    >>> rules = WindowRules(pane_ms=60_000, windows_ms=(300_000,), lateness_ms=60_000, attribution_ms=1_800_000)
    >>> for number in first_numbers(0, 25_000, rules, None):
    ...     print(number)
    FirstNumber(number='live', at_ms=60000, seconds=35.0)
    FirstNumber(number='final', at_ms=1920000, seconds=1895.0)
    >>> [*first_numbers(0, 1_920_000, rules, None)]
    []
    """
    live_ms = first_ms + rules.pane_ms + (rules.live_wait_ms or 0)
    final_ms = first_ms + rules.pane_ms + rules.lateness_ms + rules.attribution_ms
    if watermark_ms < live_ms:
        yield FirstNumber("live", live_ms, (live_ms - watermark_ms) / 1_000)
    if watermark_ms < final_ms:
        yield FirstNumber("final", final_ms, (final_ms - watermark_ms) / 1_000)
    if verdict_ms is not None:
        yield FirstNumber("verdict", verdict_ms, max(0, verdict_ms - watermark_ms) / 1_000)
