"""The sessions of admitted events, and what one session's events come to: its lists, their grades, every event's fate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streammetrics.events.model import Feedback, Impression
from tests.oracle.grades import grade_of, is_known
from tests.oracle.values import Admitted, Settings


def sessionize(admitted: Iterable[Admitted], gap_ms: int) -> list[list[Admitted]]:
    """Every event belongs to one session: a user's neighbours in time at most `gap_ms` apart share it."""
    sessions: list[list[Admitted]] = []
    for one in sorted(admitted, key=lambda one: (one.event.user_id, one.event.ts)):
        last = sessions[-1][-1].event if sessions else None
        if last is not None and last.user_id == one.event.user_id and one.event.ts - last.ts <= gap_ms:
            sessions[-1].append(one)
        else:
            sessions.append([one])
    return sessions


@dataclass(frozen=True, slots=True)
class List:
    """A list of one session before it is graded."""

    impression_id: str
    ts: int
    items: tuple[str, ...]
    experiments: tuple[tuple[str, str], ...]
    segments: tuple[tuple[str, str], ...]
    teams: tuple[str, ...]


@dataclass(slots=True)
class Resolved:
    """What a session comes to. `grades` is by (impression_id, item); `fates` and `repeated` are by arrival number."""

    lists: dict[str, List] = field(default_factory=dict)
    grades: dict[tuple[str, str], float] = field(default_factory=dict)
    fates: dict[int, str] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)


def resolve(session: Sequence[Admitted], settings: Settings) -> Resolved:
    """Join one session: first its lists, then each feedback with them."""
    resolved = Resolved()
    shows = [one for one in session if isinstance(one.event, Impression)]
    seen: dict[str, list[Admitted]] = {}
    for impression_id in sorted({_impression(one).impression_id for one in shows}):
        of_one_id = [one for one in shows if _impression(one).impression_id == impression_id]
        shown, counting = _list_of(of_one_id, settings)
        is_whole = any(one.number in counting and _impression(one).positions is None for one in of_one_id)
        fits = is_whole or len(shown.items) <= settings.items_max
        if fits:
            resolved.lists[impression_id] = shown
        seen[impression_id] = of_one_id
        for one in of_one_id:
            resolved.fates[one.number] = "duplicate" if one.number not in counting else "shown" if fits else "too_many_items"
    done: set[tuple[str, str, str]] = set()
    for one in sorted(session, key=lambda one: (one.event.ts, settings.inputs.index(one.input), one.number)):
        if isinstance(one.event, Feedback):
            _join(one.number, one.event, resolved, seen, done, settings)
    return resolved


def _impression(one: Admitted) -> Impression:
    assert isinstance(one.event, Impression)
    return one.event


def _list_of(of_one_id: Sequence[Admitted], settings: Settings) -> tuple[List, set[int]]:
    """The one list of an impression_id in its session, and the numbers of the events that count for it."""
    least_ts = min(one.event.ts for one in of_one_id)
    in_time = [one for one in of_one_id if one.event.ts <= least_ts + settings.attribution_ms]
    in_order = sorted(in_time, key=lambda one: (_least_first(_impression(one)), settings.inputs.index(one.input), one.number))
    wholes = [one for one in in_order if _impression(one).positions is None]
    if wholes:
        best = _impression(wholes[0])
        return List(best.impression_id, best.ts, best.items, best.experiments, best.segments, best.teams), {wholes[0].number}
    shown, counting = _union(in_order)
    beaten = any(_impression(one).positions is None for one in of_one_id)
    return shown, set() if beaten else counting


def _least_first(show: Impression) -> tuple[object, ...]:
    """(ts, content). Whole copies have no positions; an empty tuple stands for that, and they never meet fragments in one contest."""
    return (show.ts, show.items, show.positions or (), show.experiments, show.segments, show.teams)


def _union(fragments: Sequence[Admitted]) -> tuple[List, set[int]]:
    """The list that fragments, least (ts, content) first, make together; one that changes nothing of it does not count."""
    position_of: dict[str, int] = {}
    team_of: dict[str, str] = {}
    counting = {fragments[0].number}
    for one in fragments:
        show = _impression(one)
        before = dict(position_of)
        for item, position, team in zip(show.items, show.positions or (), show.teams or ("",) * len(show.items), strict=True):
            if position < position_of.get(item, position + 1):
                position_of[item], team_of[item] = position, team
        if position_of != before:
            counting.add(one.number)
    items = tuple(sorted(position_of, key=lambda item: (position_of[item], item)))
    first = _impression(fragments[0])
    teams = tuple(team_of[item] for item in items) if any(team_of.values()) else ()
    return List(first.impression_id, first.ts, items, first.experiments, first.segments, teams), counting


def _join(
    number: int,
    feedback: Feedback,
    resolved: Resolved,
    seen: Mapping[str, Sequence[Admitted]],
    done: set[tuple[str, str, str]],
    settings: Settings,
) -> None:
    """Give one feedback its fate and, if it is matched, its item the greater of its grades."""
    if not is_known(feedback.action, settings.rules):
        resolved.fates[number] = "unknown_action"
        return
    shown = _list_for(feedback, resolved.lists, seen, settings)
    if isinstance(shown, str):
        resolved.fates[number] = shown
    elif feedback.ts - shown.ts > settings.attribution_ms:
        resolved.fates[number] = "too_old"
    else:
        resolved.fates[number] = "matched"
        place = (shown.impression_id, feedback.item_id)
        resolved.grades[place] = max(resolved.grades.get(place, 0), grade_of(feedback, settings.rules))
        if (*place, feedback.action) in done:
            resolved.repeated.add(number)
        done.add((*place, feedback.action))


def _list_for(feedback: Feedback, lists: Mapping[str, List], seen: Mapping[str, Sequence[Admitted]], settings: Settings) -> List | str:
    """The list a feedback belongs to, or why there is none."""
    impression_id = feedback.impression_id
    if impression_id is None:
        earlier = {name: [one for one in events if one.event.ts <= feedback.ts] for name, events in seen.items()}
        candidates = [_list_of(events, settings)[0] for events in earlier.values() if events]
        showing = [shown for shown in candidates if feedback.item_id in shown.items]
        if not showing:
            return "out_of_list" if any(shown.impression_id in lists for shown in candidates) else "orphan"
        impression_id = max(showing, key=lambda shown: (shown.ts, shown.impression_id)).impression_id
    if impression_id not in lists:
        return "orphan"
    return lists[impression_id] if feedback.item_id in lists[impression_id].items else "out_of_list"
