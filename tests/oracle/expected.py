"""The whole oracle: steps in, results out. It runs the stages in order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from streammetrics.events.model import Exposure, Impression
from tests.oracle.admission import Admission, admit
from tests.oracle.engagement import engagement_of
from tests.oracle.exposures import exposure_outcomes, labelled
from tests.oracle.join import List, Resolved, resolve, sessionize
from tests.oracle.tallies import merge_panes, tally_panes, window_end, window_over
from tests.oracle.values import OUTCOMES_AT_CLOSE, REASONS, Admitted, Arrival, Result, Session, Settings, ShownList, Step, TaskResult


def expected_result(
    steps: Sequence[Step] | Mapping[int, Sequence[Step]],
    settings: Settings,
    *,
    flush: bool = False,
) -> Result:
    """Return the expected result of the steps of one task (task 0), or of several tasks by number.

    >>> from streammetrics.events.model import Feedback, Impression
    >>> impression = Arrival("impressions", Impression("x", "u", 10, ("a", "b")))
    >>> feedback = Arrival("feedback", Feedback("u", 12, "b", "click"))
    >>> expected_result([impression, feedback], Settings(), flush=True).totals["matched"]
    1
    """
    _check(settings)
    by_task = steps if isinstance(steps, Mapping) else {0: steps}
    tasks = {task: _task_result(of_task, settings, flush) for task, of_task in by_task.items()}
    w_ms = min((task.w_ms for task in tasks.values()), default=-math.inf)
    f_ms = min((task.f_ms for task in tasks.values()), default=-math.inf)
    newest_ts = max((task.newest_ts for task in tasks.values() if task.newest_ts is not None), default=None)
    if newest_ts is not None:  # after a flush, windows end where other events agree with the newest one
        supported_ts = max(task.supported_ts for task in tasks.values())
        newest_ts = newest_ts if supported_ts == -math.inf else int(min(newest_ts, supported_ts))
    panes = merge_panes(task.panes for task in tasks.values())
    live_ms = w_ms if settings.validity_ms is None else w_ms - settings.lateness_ms  # until then, all lists have their variants
    ends = {view: window_end(bound, newest_ts, settings.pane_ms) for view, bound in (("final", f_ms), ("live", live_ms))}
    if settings.validity_ms is None:
        ends["live"] = _live_end(ends["live"], min((start for start, _ in panes), default=None), tasks.values(), settings.pane_ms)
    counters: Counter[tuple[str, str]] = Counter()
    for task in tasks.values():
        counters.update(task.counters)
    return Result(
        tasks=tasks,
        settings=settings,
        w_ms=w_ms,
        f_ms=f_ms,
        counters=dict(counters),
        totals={reason: sum(counters[reason, name] for name in settings.inputs) for reason in REASONS},
        panes=panes,
        windows={(window, view): window_over(panes, end, window) for window in settings.windows_ms for view, end in ends.items()},
    )


def _live_end(end_ms: int | None, first_ms: int | None, tasks: Iterable[TaskResult], pane_ms: int) -> int | None:
    """Return where live windows end: while no pane with lists has ended, with the pane that is open in the slowest task."""
    if first_ms is None or (end_ms is not None and end_ms > first_ms):
        return end_ms
    newest = [
        task.newest_ts if task.supported_ts == -math.inf else int(min(task.newest_ts, task.supported_ts))
        for task in tasks
        if task.newest_ts is not None
    ]
    return max(min(newest) // pane_ms * pane_ms, first_ms) + pane_ms


def _check(settings: Settings) -> None:
    if any(window % settings.pane_ms for window in settings.windows_ms):
        raise ValueError(f"a window must be a whole number of panes: got {settings.windows_ms} over {settings.pane_ms}")


def _task_result(steps: Sequence[Step], settings: Settings, flush: bool) -> TaskResult:
    arrivals = [step for step in steps if isinstance(step, Arrival)]
    admission = admit(steps, settings)
    w_ms = math.inf if flush else admission.w_ms
    exposures = [one for one in admission.admitted if isinstance(one.event, Exposure)]
    sessions = sessionize([one for one in admission.admitted if not isinstance(one.event, Exposure)], settings.gap_ms)
    resolved = [resolve(session, settings) for session in sessions]
    for session, joined in zip(sessions, resolved, strict=True):
        user = session[0].event.user_id
        joined.lists = {
            name: labelled(impression, user, exposures, settings, w_ms - settings.lateness_ms) for name, impression in joined.lists.items()
        }
    closed = [session[-1].event.ts + settings.gap_ms < w_ms - settings.lateness_ms for session in sessions]
    lists = tuple(
        _finished(impression, joined, session, is_closed or impression.ts + settings.attribution_ms < w_ms - settings.lateness_ms, settings)
        for session, joined, is_closed in zip(sessions, resolved, closed, strict=True)
        for impression in sorted(joined.lists.values(), key=lambda impression: (impression.ts, impression.impression_id))
    )
    of_exposures = exposure_outcomes(exposures, settings)
    outcomes = admission.refused | of_exposures | {number: outcome for joined in resolved for number, outcome in joined.outcomes.items()}
    return TaskResult(
        w_ms=w_ms,
        f_ms=w_ms - settings.lateness_ms - settings.attribution_ms,
        newest_ts=max((one.event.ts for one in admission.admitted), default=None),
        supported_ts=admission.supported_ts,
        outcomes=tuple(outcomes[number] for number in range(len(arrivals))),
        counters=_count(arrivals, admission, resolved, closed, of_exposures, settings),
        sessions=tuple(_summary(session, is_closed) for session, is_closed in zip(sessions, closed, strict=True)),
        lists=lists,
        panes=tally_panes(lists, settings),
    )


def _finished(impression: List, joined: Resolved, session: Sequence[Admitted], final: bool, settings: Settings) -> ShownList:
    """Return a list with grades. An item's grade goes to its first position; later positions have 0."""
    first_place = {item: impression.items.index(item) for item in impression.items}
    grades = tuple(
        joined.grades.get((impression.impression_id, item), 0) if first_place[item] == place else 0
        for place, item in enumerate(impression.items)
    )
    return ShownList(
        user_id=session[0].event.user_id,
        impression_id=impression.impression_id,
        ts=impression.ts,
        items=impression.items,
        grades=grades,
        experiments=impression.experiments,
        segments=impression.segments,
        teams=impression.teams,
        final=final,
        engagement=engagement_of(impression, joined, settings),
        reacted_ms=tuple(ts for (name, _, _), ts in joined.first_reactions.items() if name == impression.impression_id),
    )


def _summary(session: Sequence[Admitted], closed: bool) -> Session:
    return Session(session[0].event.user_id, session[0].event.ts, session[-1].event.ts, len(session), closed)


def _count(
    arrivals: Sequence[Arrival],
    admission: Admission,
    resolved: Sequence[Resolved],
    closed: Sequence[bool],
    of_exposures: Mapping[int, str],
    settings: Settings,
) -> dict[tuple[str, str], int]:
    """Count by (reason, input). Outcomes of feedback count only if the session has closed."""
    counters: Counter[tuple[str, str]] = Counter(("events", arrival.input) for arrival in arrivals)
    counters.update((reason, arrivals[number].input) for number, reason in admission.refused.items())
    for one in admission.admitted:
        if isinstance(one.event, Impression):
            counters.update((reason, one.input) for reason in one.event.label_notes)
    counters.update(("ahead", arrivals[number].input) for number in admission.ahead)
    for number, outcome in of_exposures.items():
        counters.update({(reason, arrivals[number].input) for reason in ("exposure", outcome)})
    for joined, is_closed in zip(resolved, closed, strict=True):
        if is_closed and settings.validity_ms is not None:
            counters.update(
                ("list_exposed" if impression.experiments else "list_unexposed", impression.input) for impression in joined.lists.values()
            )
        for number, outcome in joined.outcomes.items():
            if outcome != "shown" and (is_closed or outcome not in OUTCOMES_AT_CLOSE):
                counters[outcome, arrivals[number].input] += 1
        if is_closed:
            counters.update(("repeated", arrivals[number].input) for number in joined.repeated)
            counters.update(("place_conflict", of_list) for of_list in joined.conflicts)
    return dict(counters)
