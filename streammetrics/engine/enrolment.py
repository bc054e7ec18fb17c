"""Lists that have become final enter what is counted of users, once between two commits: experiments, and the reach of panes.

Pure. A list enters when its session has closed, or some patience after its pane is final, whichever is first, and changes no
more; of one user's lists the earlier never enter after the later. All users that are looked at between two commits are taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streammetrics.engine.codec import decode_totals, encode_totals
from streammetrics.engine.experiment_runs import CovariatePeriod, ExperimentRules, ExperimentRun
from streammetrics.engine.task_state import TaskState
from streammetrics.engine.user_totals import TotalsRound, UserRecord
from streammetrics.events.event_time import FOREVER
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.last_seen import LastSeenBatch


class EnrolmentResult(NamedTuple):
    """What users' totals come to: those to store, those of whom nothing is left, and until when the rest is of use (event time, ms)."""

    totals: dict[str, bytes]
    gone: list[str]
    until: dict[str, int]


class EnrolmentRound(NamedTuple):
    """What users are looked at for: experiments, the reach of panes, or both. `lists` are those that enter, by user of the records."""

    lists: FinalLists
    experiments: TotalsRound | None = None
    reach: LastSeenBatch | None = None


def waiting(state: TaskState) -> FinalLists:
    """The lists that wait to enter.

    Every user whose lists wait must have been looked at, so that his totals are known.
    """
    assert state.finalized.keys() <= state.records.keys(), "lists of a user entered whose totals are not known"
    return FinalLists([state.finalized.get(user_id, ()) for user_id in state.records])


def enter_lists(state: TaskState, rounds: EnrolmentRound, *, pane_ms: int, waiting_ms: int, bound: int) -> EnrolmentResult:
    """Let all lists that wait enter; afterwards nobody is looked at any more. `bound` is that of sessions that are over (ms)."""
    users = zip(state.records.items(), rounds.lists.label_runs, strict=True)
    known = [_enter(state, rounds, *user, label_runs, pane_ms, bound) for user, label_runs in users]
    until: dict[int, int] = {}
    until_earlier: dict[CovariatePeriod, int] = {}
    if rounds.experiments is not None:
        rounds.experiments.sum()
        rules = rounds.experiments.rules
        until = {run.number: _until(run, rules, waiting_ms) for run in state.runs}
        until_earlier = {time: _until_begun(time, rules, waiting_ms) for time in rules.earlier}
        until_earlier |= {run.earlier: until[run.number] for run in state.runs if run.earlier is not None}
    if rounds.reach is not None:
        state.reaches_dirty |= rounds.reach.update_counts(state.reaches)
    entered = EnrolmentResult({}, [], {})
    for (user_id, stored), record in zip(state.records.items(), known, strict=True):
        entries, earlier, presence = record.entries, record.earlier, record.presence
        nothing_comes = bound == FOREVER and not state.users[user_id].sessions  # after a flush
        if nothing_comes or not (entries or earlier or presence):
            if stored is not None:
                entered.gone.append(user_id)
            continue
        if record.changed:
            entered.totals[user_id] = encode_totals(list(entries.values()), list(earlier.values()), list(presence.values()))
        ends = [until[number] for number, _ in entries]
        if earlier:
            ends += [until_earlier[time] for time in earlier]
        if not ends and rounds.reach is not None:  # beside others, it may stay as long as they do
            ends = [rounds.reach.relevant_until(presence)]
        entered.until[user_id] = max(bound, min(ends))
    state.finalized, state.records = {}, {}
    return entered


def _enter(
    state: TaskState, rounds: EnrolmentRound, user_id: str, stored: bytes | None, label_runs: Sequence[LabelRun], pane_ms: int, bound: int
) -> UserRecord:
    """Let the lists of a user enter, if any wait; returns what he has then."""
    lists, experiments, reach = rounds
    record = UserRecord({}, {}, {}, bool(label_runs))
    if stored is not None:
        totals, earlier, presences = decode_totals(stored)
        if experiments is not None:
            experiments.read(record, totals, earlier)
        if reach is not None and presences:
            oldest = lists.times[label_runs[0][1]] if label_runs else state.entered_before if state.users[user_id].sessions else bound
            record.presence = reach.restore(presences, oldest // pane_ms)
        left = len(record.entries) + len(record.earlier) + len(record.presence)
        record.changed = record.changed or left < len(totals) + len(earlier) + len(presences)
    if label_runs and experiments is not None:
        experiments.enter(record, label_runs)
    if label_runs and reach is not None:
        reach.add_lists(record.presence, label_runs)
    return record


def _until(run: ExperimentRun, rules: ExperimentRules, waiting_ms: int) -> int:
    """When a user's part in a life is worth a look (ms): it may be over then."""
    last, end = run.last + rules.idle_ms, rules.span(run.experiment).end_ms
    return last if end is None else min(last, end + 2 * waiting_ms)


def _until_begun(earlier: CovariatePeriod, rules: ExperimentRules, waiting_ms: int) -> int:
    """When a user's time before an experiment is worth a look (ms): the experiment should have begun by then."""
    last, end = earlier.start_ms + rules.idle_ms, rules.span(earlier.experiment).end_ms
    return (last if end is None else min(last, end)) + 2 * waiting_ms
