"""Admission: which events are admitted, and the watermark W. The only stage that works step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streammetrics.events.model import Event, Exposure
from tests.oracle.join import sessionize
from tests.oracle.supported_time import SupportedTime
from tests.oracle.values import Admitted, Arrival, Idle, Settings, Step, Tick


@dataclass(frozen=True, slots=True)
class Admission:
    """The admitted events in order of arrival, the reason of every refused arrival by its number, and the final W.

    `ahead` are the numbers of the arrivals by which events were contradicted, once for each of these. `supported_ts` is the greatest
    time of any input at its end.
    """

    admitted: tuple[Admitted, ...]
    refused: dict[int, str]
    ahead: tuple[int, ...]
    w_ms: float
    supported_ts: float


def admit(steps: Sequence[Step], settings: Settings) -> Admission:
    """Process the steps of a task. Each decision uses the watermarks before the step."""
    times = {name: SupportedTime(settings) for name in settings.inputs}
    w_task = -math.inf
    idle: set[str] = set()
    admitted: list[Admitted] = []
    refused: dict[int, str] = {}
    ahead: list[int] = []
    for step in steps:
        if isinstance(step, Tick):
            idle = set(settings.inputs)
            w_task = max(w_task, step.now_ms - settings.idle_ms - settings.out_of_orderness_ms)
        elif isinstance(step, Idle):
            idle = set(step.inputs)
        else:
            number, time = len(admitted) + len(refused), times[step.input]
            w_input = time.t_ms - settings.out_of_orderness_ms
            reason = "future" if _is_after_its_record(step, settings) else None
            if reason is None:
                contradicted = time.contradicted
                time.consider(step.event.user_id, step.event.ts)
                ahead.extend([number] * (time.contradicted - contradicted))
                if time.is_refused(step.event.ts):
                    reason = "future"
            reason = reason or _refusal_reason(step, w_input, w_task, admitted, settings)
            if reason is None:
                admitted.append(Admitted(number, step.input, step.event))
            else:
                refused[number] = reason
            idle.discard(step.input)
        live = [times[name].t_ms - settings.out_of_orderness_ms for name in settings.inputs if name not in idle]
        if live:
            w_task = max(w_task, min(live))
    return Admission(tuple(admitted), refused, tuple(ahead), w_task, max(time.at_end() for time in times.values()))


def _is_after_its_record(arrival: Arrival, settings: Settings) -> bool:
    """Return whether an event is too far ahead of its record. Such an event says nothing about time."""
    return arrival.record_ts is not None and arrival.event.ts > arrival.record_ts + settings.future_ms


def _refusal_reason(arrival: Arrival, w_input: float, w_task: float, admitted: Sequence[Admitted], settings: Settings) -> str | None:
    if arrival.event.ts < max(w_input, w_task) - settings.lateness_ms:
        return "late"
    if not isinstance(arrival.event, Exposure) and _is_near_a_full_session(arrival.event, admitted, settings):
        return "session_full"
    return None


def _is_near_a_full_session(event: Event, admitted: Sequence[Admitted], settings: Settings) -> bool:
    """Return whether an event is near a full session. Closed sessions need no exception, because only late events could reach them."""
    lists_of_user = [other for other in admitted if other.event.user_id == event.user_id and not isinstance(other.event, Exposure)]
    full = [session for session in sessionize(lists_of_user, settings.gap_ms) if len(session) >= settings.session_events_max]
    return any(abs(other.event.ts - event.ts) <= settings.gap_ms for session in full for other in session)
