"""The state of an experiment: whether its arms still get lists, and hours in which one was silent. Stored times and counts in. Pure.

    running   all arms get lists, or miss them for a short time only
    stopped   an arm gets no more lists and others do, so nothing new can be compared
    silent    the whole experiment has had no list for long
    ended     its configured end has passed

**An arm has stopped** if it has no list, and should have many. With a of the b lists of its latest two blocks of hours, and L lists of
other arms since its last one, it should have had L a / (b - a) lists. As below they are divided by the lists per user; from 20
on the arm has stopped (e**-20 by chance). Its next list makes it run again.

**Long** is twice the longest time without a list before, at least 2 hours and at most a day.

A certain verdict on lists that have stopped is decided. What comes later must not undo it. So the checks of the split, of losses and of
feedback end at the last list of the arm that has stopped. Later lists of the other arm also make its users differ more, so that intervals
grow. So the verdicts of deciding measures are frozen with the scales, at the first look at which the last list counts (see `building`).

**An arm was silent** for certain in hours in which it had no list, while the other arm had many.
With p the share of the arm among the lists of both in hours in which both have some, and L lists of the other arm in hours that follow each
other, the arm should have had L p / (1 - p) lists. A user's lists come together, so they count as fewer: divided by sum d**2 / sum d, the
lists per user as a list sees them. If the result is n, an arm that goes on has no list with a probability of about e**-n.

The lists of these hours are not compared. Once the arm has returned, the entries are not certain: a user who came before, and had no list
of a silent arm, looks new then. So a verdict needs two estimates: that of cells by hour and entry, and that of cells by hour alone. One of
them is right, so both together are (intersection-union test; Berger 1982).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.experiments.cells import HourSpan
from streammetrics.experiments.hours import Hours
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import StoredSums
from streammetrics.statistics.measures import Measures
from streammetrics.words.numbers import counted
from streammetrics.words.sentences import DataWarning, Part, ReasonedWord, join, named, say
from streammetrics.words.times import HOUR_MS, minute_text

VISITS_MIN: Final = 20.0
"""Expected visits (lists, divided as above) after which an arm without any is silent: e**-20."""
StateWord: TypeAlias = Literal["running", "stopped", "silent", "ended"]
SILENT_MS_MIN: Final = 2 * HOUR_MS
SILENT_MS_MAX: Final = 24 * HOUR_MS
LATEST_BLOCKS: Final = 2
"""Blocks of hours with lists of an arm that its share is taken from."""


class SilentHours(NamedTuple):
    """Hours in which an arm had no list, and the lists of the other arm then. has_returned: whether it had lists again."""

    arm: str
    span: HourSpan
    others_lists: int
    has_returned: bool


def silent_hours(measures: Measures, stored: StoredSums, treatment: str, control: str) -> tuple[SilentHours, ...]:
    """Return the hours in which one of two arms was silent, in order; those of the whole run, also for a day.

    >>> from streammetrics.experiments.hours import Entry
    >>> from streammetrics.metrics import Scorer
    >>> measures, hours = Measures(Scorer(["mrr@10"]).columns), Hours()
    >>> for hour in range(10):
    ...     hours.row(hour).add_totals("control", Entry(1, hour), [30, 0])
    ...     if hour not in (4, 5): hours.row(hour).add_totals("new", Entry(1, hour), [10, 0])
    >>> moments = {"control": [300, 300, 300, 0, 0, 0], "new": [80, 80, 80, 0, 0, 0]}
    >>> stored = StoredSums(experiment="ranker", scope="start", moments=moments, first_list_users={}, run_hours=hours)
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
    return DataWarning("silent arm", said, f"to compare all lists after it, replay the log and set {setting}", treatment)


def _time_words(silent: SilentHours) -> str:
    first, end = (minute_text(hour * HOUR_MS) for hour in silent.span)
    return say("{arm} had no list from {first} to {end}", arm=named(silent.arm), first=first, end=end)


@dataclass(frozen=True, slots=True)
class ExperimentState(ReasonedWord):
    """The state of an experiment, or of one arm, with a sentence; empty while it is running.

    since_ms: event time of the last list, or of the end; None while it is running.
    """

    word: StateWord
    since_ms: int | None = None
    reason: str = ""
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)


RUNNING: Final = ExperimentState("running")


class States(NamedTuple):
    """The states of an experiment and of its arms. `stopped` has the time of the last list of each arm that has stopped.

    is_over: whether nothing of it has had a list for long, so that its numbers are no news.
    """

    whole: ExperimentState
    arms: Mapping[str, ExperimentState]
    stopped: Mapping[str, int]
    is_over: bool

    def of(self, arm: str) -> ExperimentState:
        return self.arms.get(arm, self.whole)


ALL_RUNNING: Final = States(RUNNING, {}, {}, False)


def states_of(measures: Measures, policy: Policy, stored: StoredSums) -> States:
    """Return the states of the arms of the run, also in the scope of a day in which some have no list."""
    control = policy.control_of(list(stored.run_users))
    treatments = policy.treatments(control, stored.run_users)
    last_ms = max(stored.last_ms.values(), default=None)
    stopped = stopped_arms(measures, stored, [arm for arm in (control, *treatments) if arm is not None])
    if last_ms is None:
        return ALL_RUNNING
    is_long = stored.newest_ms - last_ms > silent_ms(stored.run_hours)
    if stored.end_ms is not None and stored.newest_ms >= stored.end_ms:
        whole = ExperimentState("ended", stored.end_ms, say("the experiment ended at {end}", end=minute_text(stored.end_ms)))
        return States(whole, {}, stopped, is_long)
    if is_long:
        silence = say("the experiment has had no list since {last}", last=minute_text(last_ms))
        return States(ExperimentState("silent", last_ms, silence), {}, stopped, True)
    arms = {} if control is None else {control: _state_of_arm(control, stopped)}
    arms |= {treatment: _state_of_arm(control if control in stopped else treatment, stopped) for treatment in treatments}
    goes_on = [treatment for treatment in treatments if arms[treatment].word == "running"]
    if goes_on or not stopped:
        return States(RUNNING, arms, stopped, False)
    last = max(stopped.values())
    said = say(
        "{arms} {have} had no list since {last}", arms=_names(stopped), have="has" if len(stopped) == 1 else "have", last=minute_text(last)
    )
    return States(ExperimentState("stopped", last, said), arms, stopped, False)


def _names(arms: Collection[str]) -> str:
    return join(map(named, sorted(arms)), " and ")


def _state_of_arm(arm: str | None, stopped: Mapping[str, int]) -> ExperimentState:
    if arm is None or arm not in stopped:
        return RUNNING
    return ExperimentState(
        "stopped", stopped[arm], say("{arm} has had no list since {last}", arm=named(arm), last=minute_text(stopped[arm]))
    )


def stopped_arms(measures: Measures, stored: StoredSums, arms: Collection[str]) -> dict[str, int]:
    """Return the time of the last list of each arm that has stopped while another one goes on.

    >>> from streammetrics.experiments.hours import Entry
    >>> from streammetrics.metrics import Scorer
    >>> measures, hours = Measures(Scorer(["mrr@10"]).columns), Hours()
    >>> for arm, lists in (("control", 300), ("new", 100)): hours.row(7).add_totals(arm, Entry(1, 7), [lists, 0])
    >>> moments = {"control": [300, 300, 300, 0, 0, 0], "new": [100, 100, 100, 0, 0, 0]}
    >>> times = {"control": 7 * HOUR_MS + 9_000, "new": 7 * HOUR_MS + 5_000}
    >>> for later in (59, 60):
    ...     stored = StoredSums(experiment="ranker", scope="start", moments=moments, first_list_users={}, run_hours=hours, last_ms=times,
    ...         lists_since={"new": later})
    ...     stopped_arms(measures, stored, ["control", "new"])
    {}
    {'new': 25205000}
    """
    last_of = {arm: stored.last_ms[arm] for arm in arms if arm in stored.last_ms}
    per_user = lists_per_user(measures, [stored.moments[arm] for arm in arms if arm in stored.moments])
    if len(last_of) < 2 or not per_user:
        return {}
    lists = {arm: stored.run_hours.lists(arm) for arm in last_of}
    stopped, block_ms = {}, stored.run_hours.length * HOUR_MS
    for arm, last_ms in last_of.items():
        counted = sum(count for name in lists if name != arm for block, count in lists[name].items() if block > last_ms // block_ms)
        later = max(stored.lists_since.get(arm, 0), counted)
        blocks = sorted(lists[arm])[-LATEST_BLOCKS:]
        of_arm_alone = sum(lists[arm][block] for block in blocks)
        others = sum(of_arm.get(block, 0) for name, of_arm in lists.items() if name != arm for block in blocks)
        if others and later * of_arm_alone / others / per_user >= VISITS_MIN:
            stopped[arm] = last_ms
    return stopped


def silent_ms(hours: Hours) -> int:
    """Return how long an experiment may have no list before it is silent.

    >>> from streammetrics.experiments.hours import Entry
    >>> hours = Hours()
    >>> for hour in (0, 1, 2, 8): hours.row(hour).add_totals("control", Entry(1, hour), [1])
    >>> silent_ms(Hours()) // HOUR_MS, silent_ms(hours) // HOUR_MS
    (2, 10)
    """
    blocks = sorted(block for block, row in hours.rows.items() if row.totals)
    longest = max((later - earlier - 1 for earlier, later in pairwise(blocks)), default=0)
    return min(SILENT_MS_MAX, max(SILENT_MS_MIN, 2 * longest * hours.length * HOUR_MS))
