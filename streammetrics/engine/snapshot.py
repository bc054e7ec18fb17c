"""What a commit leaves of a task -> its state, to go on with; and the task's own record, which says where it stands.

Pure. State of other rules is refused, never guessed at. What may change between two runs is said here: experiments, and users of windows,
may be switched on and off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streammetrics.engine.codec import (
    OTHER_MEASURES,
    Control,
    Signature,
    decode_control,
    decode_pane,
    decode_reach,
    decode_scope,
    differing,
    fit_of,
    parse_cell,
)
from streammetrics.engine.experiment_runs import EVER, ExperimentRun, ExperimentRuns, is_behind
from streammetrics.engine.task_state import EngineRules, TaskState
from streammetrics.errors import StateError
from streammetrics.events.event_time import NEVER, pane_start


def open_task(
    rules: EngineRules,
    signature: Signature,
    control: bytes | None,
    panes: Mapping[int, bytes],
    pane_starts: Iterable[int],
    experiments: Mapping[str, bytes],
    reaches: Mapping[int, bytes],
) -> TaskState:
    """See `Engine.open`. `signature` is the engine's."""
    state = TaskState(len(rules.topics))
    state.entering_ms = rules.entering_ms
    if rules.experiments is not None:
        state.runs = ExperimentRuns(rules.experiments.idle_ms)
    if control is None:
        return state
    stored = decode_control(control)
    _check_rules(stored, rules, signature)
    state.offsets, state.watermarks, state.topic_ids = stored.offsets, stored.watermarks, stored.topic_ids
    state.watermark, state.newest, state.oldest_kept = stored.watermark, stored.newest, stored.oldest_kept
    state.final_before, state.sessions_open = stored.pane_from, stored.sessions_open
    state.counts.update({(reason, topic): count for reason, topic, count in stored.counts})
    state.totals = {(experiment, variant): total for experiment, variant, total in stored.totals}
    state.groups = {group: newest for group, newest, _ in stored.groups}
    state.since = {group: since for group, _, since in stored.groups}
    state.panes = {start: decode_pane(pane) for start, pane in panes.items() if start >= stored.pane_from}
    state.pane_starts = set(pane_starts)
    state.entered_before, state.runs.next_number = stored.entered_before, stored.runs_from
    state.entering_ms, state.promised_until = max(state.entering_ms, stored.entering_ms), stored.newest
    if rules.experiments is not None:
        state.joined = {day: [matched, unmatched] for day, matched, unmatched in stored.joined}
    _open_reaches(state, rules, stored, reaches)
    if fit_of(stored.signature, signature) == "switched":
        _begin_anew(state, experiments)
        return state
    state.counted_from = stored.counted_from
    _check_ends(stored, rules)
    for number, experiment, first, last, variants, earlier in stored.runs:
        state.runs.take(ExperimentRun(number, experiment, first, last, variants, earlier))
    for name, cell in experiments.items():
        number, day = parse_cell(name)
        state.runs.of_number[number].scopes[day] = decode_scope(cell)
    return state


def _check_rules(stored: Control, rules: EngineRules, signature: Signature) -> None:
    fit = fit_of(stored.signature, signature)
    then, now = differing(f"topics={stored.topics} {stored.signature}", f"topics={list(rules.topics)} {signature}")
    differs = f"\n  stored: {then}\n  now:    {now}"
    if fit == "other" or stored.topics != list(rules.topics):
        raise StateError(f"the store holds state of other rules, which must not be merged with these: use a new redis.namespace{differs}")
    if fit == "measures":
        raise StateError(f"the store holds experiments that are measured by other metrics: {OTHER_MEASURES}{differs}")


def _check_ends(stored: Control, rules: EngineRules) -> None:
    """An experiment whose end is past may not go on: users whose part in it was over have been let go, and would count twice."""
    if rules.experiments is None:
        return
    for experiment, end in stored.ends:
        last = rules.experiments.span(experiment).last
        if last >= end and is_behind(end - 1, rules.pane_ms, stored.entered_before):
            now = "has none" if last == EVER.last else f"ends at {last + 1}"
            raise StateError(
                f"experiment {experiment!r} has ended at {end} (epoch ms) and now {now}: its users were let go, and would count twice",
                "leave experiments.named its end and give what follows another name, or use a new redis.namespace",
            )


def _begin_anew(state: TaskState, cells: Iterable[str]) -> None:
    """Drop all that is known of experiments, which have been switched on or off. What is counted from now on misses nothing.

    Lists up to the newest event may have gone by uncounted, whenever they come; all later ones are yet to come. Users' totals of
    lives that are gone go when their users are looked at next.
    """
    state.cells_gone.update(map(parse_cell, cells))
    state.counted_from = state.newest if state.newest == NEVER else state.newest + 1
    state.changed = True


def _open_reaches(state: TaskState, rules: EngineRules, stored: Control, reaches: Mapping[int, bytes]) -> None:
    """Go on with the reach of panes. Gaps of another longest window are no use, so it then begins anew with the next pane, as it does
    when users were not counted before: what is known of them from an earlier time is older than any window that is shown.
    """
    if rules.reach is None:
        return
    if stored.reach_panes == rules.reach.panes:
        state.reach_from = stored.reach_from
        state.reaches = {start: decode_reach(reach) for start, reach in reaches.items() if start >= stored.entered_before}
    elif stored.newest != NEVER:
        state.reach_from = pane_start(stored.newest, rules.pane_ms) + rules.pane_ms


def control_of(state: TaskState, rules: EngineRules, signature: Signature) -> Control:
    """A task's own record as it stands."""
    state.note_newest()
    return Control(
        rules=signature.rules,
        measures=signature.measures,
        topics=list(rules.topics),
        topic_ids=state.topic_ids,
        offsets=state.offsets,
        watermarks=state.watermarks,
        watermark=state.watermark,
        newest=state.newest,
        oldest_kept=state.oldest_kept,
        pane_from=state.final_before,
        counts=[(reason, topic, count) for (reason, topic), count in sorted(state.counts.items())],
        totals=[(*key, total) for key, total in sorted(state.totals.items())],
        sessions_open=state.sessions_open,
        groups=[(group, newest, state.since[group]) for group, newest in sorted(state.groups.items())],
        runs=[(run.number, run.experiment, run.first, run.last, sorted(run.variants), run.earlier) for run in state.runs],
        runs_from=state.runs.next_number,
        entered_before=state.entered_before,
        counted_from=state.counted_from,
        entering_ms=state.entering_ms,
        reach_panes=0 if rules.reach is None else rules.reach.panes,
        reach_from=state.reach_from,
        ends=_ends(state, rules),
        joined=[(day, matched, unmatched) for day, (matched, unmatched) in sorted(state.joined.items())],
    )


def _ends(state: TaskState, rules: EngineRules) -> list[tuple[str, int]]:
    if rules.experiments is None:
        return []
    spans = {run.experiment: rules.experiments.span(run.experiment) for run in state.runs}
    return [(experiment, span.end_ms) for experiment, span in sorted(spans.items()) if span.end_ms is not None]
