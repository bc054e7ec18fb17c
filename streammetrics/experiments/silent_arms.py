"""Whether an arm has stopped: it has had no list for long, while the arm that it is compared with has had many. Stored counts in. Pure.

With p the share of the arm among the lists of both so far, and L_c lists of the other arm since, the arm should have had L_c p / (1 - p)
lists. A user's lists come together, so they count as fewer: divided by sum d**2 / sum d, the lists per user as a list sees them. If the
result is n, an arm that goes on has no list with a probability of about e**-n.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streammetrics.experiments.arrivals import HOUR_MS
from streammetrics.experiments.measures import LISTS_AT, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.share_words import set_again, utc
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.words import named, say

VISITS_MIN: Final = 20.0
"""Expected visits (lists, divided as above) after which an arm without any has ended: e**-20."""
VISITS_IN_WINDOW_MIN: Final = 5.0
"""The same if the arm has been silent for longer than the longest window: e**-5."""


class SilentArm(NamedTuple):
    """An arm that has stopped: its last list (epoch ms), the lists of the other arm since then, and how many it should have had."""

    arm: str
    other: str
    last_ms: int
    others_lists: int
    expected: float

    @property
    def end_ms(self) -> int:
        """The end of the hour of its last list."""
        return (self.last_ms // HOUR_MS + 1) * HOUR_MS


def silent_arm(measures: Measures, stored: Stored, control: str, treatment: str) -> SilentArm | None:
    """Return which of two arms has stopped; None if both go on, or if it cannot be told."""
    last = {name: stored.last_ms.get(name) for name in (control, treatment)}
    if any(each is None for each in last.values()) or not all(stored.moments.get(name) for name in last):
        return None
    gone, other = sorted(last, key=lambda name: last[name] or 0)
    since, moments = stored.lists_since_last(gone, other), stored.moments[gone]
    before = stored.moments[other][LISTS_AT] - since
    by_lists = measures.places(next((each for each in measures if each.kind == "mean"), measures.all[0]))
    if since <= 0 or before <= 0 or not moments[by_lists.dd]:
        return None
    last_ms, expected = last[gone] or 0, since * moments[LISTS_AT] / before
    visits = since * moments[by_lists.d] / before * moments[by_lists.d] / moments[by_lists.dd]
    is_long = stored.window_ms is not None and stored.to_ms - last_ms > stored.window_ms
    return SilentArm(gone, other, last_ms, since, expected) if visits >= (VISITS_IN_WINDOW_MIN if is_long else VISITS_MIN) else None


def silent_words(policy: Policy, experiment: str, silent: SilentArm, control: str, treatment: str) -> str:
    """Say since when an arm has had no list, and which setting ends the comparison there."""
    return say(
        "{arm} has had no list since {last}, while {other} has had {others:,} (about {expected:,.0f} were expected): it has ended or is not"
        " logged, so {control} and {treatment} are not compared. {advice}",
        arm=named(silent.arm),
        last=utc(silent.last_ms),
        other=named(silent.other),
        others=silent.others_lists,
        expected=silent.expected,
        control=named(control),
        treatment=named(treatment),
        advice=set_again(policy, "To compare them up to then", experiment, {"end": silent.end_ms}),
    )
