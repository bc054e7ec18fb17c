"""Hours in which an arm was silent for certain: it had no list, while the other arm had many. Stored counts in. Pure.

With p the share of the arm among the lists of both in hours in which both have some, and L lists of the other arm in hours that follow each
other, the arm should have had L p / (1 - p) lists. A user's lists come together, so they count as fewer: divided by sum d**2 / sum d, the
lists per user as a list sees them. If the result is n, an arm that goes on has no list with a probability of about e**-n.

The lists of these hours are not compared. Once the arm has returned, the entries are not certain: a user who came before, and had no list
of a silent arm, looks new then. So a verdict needs two estimates: that of cells by hour and entry, and that of cells by hour alone. One of
them is right, so both together are (intersection-union test; Berger 1982).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from streammetrics.experiments.cells import HourSpan
from streammetrics.experiments.hours import HOUR_MS, Hours
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import Stored
from streammetrics.statistics.measures import Measures
from streammetrics.words.numbers import counted
from streammetrics.words.sentences import DataWarning, join, named, say
from streammetrics.words.times import minute_text

VISITS_MIN: Final = 20.0
"""Expected visits (lists, divided as above) after which an arm without any is silent: e**-20."""


class SilentHours(NamedTuple):
    """Hours in which an arm had no list, and the lists of the other arm then. has_returned: whether it had lists again."""

    arm: str
    span: HourSpan
    others_lists: int
    has_returned: bool


def silent_hours(measures: Measures, stored: Stored, treatment: str, control: str) -> tuple[SilentHours, ...]:
    """Return the hours in which one of two arms was silent, in order; those of the whole run, also for a day.

    >>> from streammetrics.experiments.hours import Entry
    >>> from streammetrics.metrics import Scorer
    >>> measures, hours = Measures(Scorer(["mrr@10"]).columns), Hours()
    >>> for hour in range(10):
    ...     hours.row(hour).add_totals("control", Entry(1, hour), [30, 0])
    ...     if hour not in (4, 5): hours.row(hour).add_totals("new", Entry(1, hour), [10, 0])
    >>> moments = {"control": [300, 300, 300, 0, 0, 0], "new": [80, 80, 80, 0, 0, 0]}
    >>> stored = Stored(experiment="ranker", scope="start", moments=moments, first_exposures={}, run_hours=hours)
    >>> silent_hours(measures, stored, "new", "control")
    (SilentHours(arm='new', span=HourSpan(first=4, end=6), others_lists=60, has_returned=True),)
    """
    arms = treatment, control
    per_user = lists_per_user(measures, [stored.moments[arm] for arm in arms if arm in stored.moments])
    hours = stored.run_hours
    lists = [hours.lists(arm) for arm in arms]
    if not per_user:
        return ()
    spans = [*_spans(hours, treatment, lists[0], lists[1], per_user), *_spans(hours, control, lists[1], lists[0], per_user)]
    return tuple(sorted(spans, key=lambda silent: silent.span))


def lists_per_user(measures: Measures, moments: Sequence[Sequence[int]]) -> float:
    """Return sum d**2 / sum d: the lists of a user as a list sees them; 0 without lists."""
    at = measures.places(next((measure for measure in measures if measure.kind == "mean"), measures.all[0]))
    lists, squares = (sum(sums[place] for sums in moments) for place in (at.d, at.dd))
    return squares / lists if lists else 0.0


def _spans(hours: Hours, arm: str, arm_lists: dict[int, int], others: dict[int, int], per_user: float) -> Iterable[SilentHours]:
    both = arm_lists.keys() & others.keys()
    ours, theirs = (sum(lists[block] for block in both) for lists in (arm_lists, others))
    if not ours or not theirs:
        return
    first, missed = -1, 0
    blocks = sorted(arm_lists.keys() | others.keys())
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block not in arm_lists:
            first, missed = (block if first < 0 else first), missed + others[block]
        if first >= 0 and (following is None or following in arm_lists):
            if missed * ours / theirs / per_user >= VISITS_MIN:
                span = HourSpan(first * hours.length, (block + 1) * hours.length)
                yield SilentHours(arm, span, missed, following is not None)
            first, missed = -1, 0


def silent_warning(policy: Policy, experiment: str, silent: Sequence[SilentHours], control: str, treatment: str) -> DataWarning:
    """Say when an arm was silent, and which setting leaves these times out."""
    times = join((_time_words(span) for span in silent[:3]), ", ")
    more = say(" and in {count} more times", count=len(silent) - 3) if len(silent) > 3 else ""
    last = silent[-1]
    setting = policy.settings_text(experiment, {"start": last.span.end * HOUR_MS})
    said = say(
        "{times}{more}, while the other arm had {lists}: these hours are not compared, and a verdict on {treatment} against {control} needs"
        " the lists of the same hours to agree, whenever their users came",
        times=times,
        more=more,
        lists=counted(sum(span.others_lists for span in silent), "list"),
        treatment=named(treatment),
        control=named(control),
    )
    return DataWarning("silent arm", said, f"to compare all lists after it, set {setting}", treatment)


def _time_words(silent: SilentHours) -> str:
    first, end = (minute_text(hour * HOUR_MS) for hour in silent.span)
    return say("{arm} had no list from {first} to {end}", arm=named(silent.arm), first=first, end=end)
