"""The join: the sessions of admitted events, and the lists, grades and event outcomes of each session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streammetrics.events.model import Feedback, Impression
from tests.oracle.grades import grade_of, is_known
from tests.oracle.values import Admitted, Settings


def sessionize(admitted: Iterable[Admitted], gap_ms: int) -> list[list[Admitted]]:
    """Split events into sessions: neighbours of one user at most `gap_ms` apart share a session."""
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
    """A list of one session, without grades."""

    impression_id: str
    ts: int
    items: tuple[str, ...]
    experiments: tuple[tuple[str, str], ...]
    segments: tuple[tuple[str, str], ...]
    teams: tuple[str, ...]
    input: str


@dataclass(slots=True)
class Resolved:
    """The result of one session.

    `grades` is by (impression_id, item). `begins` is the time of the earliest event of each impression_id. `answers` is the matched
    feedback with a grade above 0, by impression_id. `first_reactions` are the times of the first matched feedback, by impression_id, item
    and action. `outcomes` and `repeated` are by arrival number. `conflicts` are the inputs of the lists in which two items claim one place.
    """

    lists: dict[str, List] = field(default_factory=dict)
    grades: dict[tuple[str, str], float] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    answers: dict[str, list[Feedback]] = field(default_factory=dict)
    first_reactions: dict[tuple[str, str, str], int] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)
    conflicts: list[str] = field(default_factory=list)


def resolve(session: Sequence[Admitted], settings: Settings) -> Resolved:
    """Join one session: first its lists, then its feedback."""
    resolved = Resolved()
    impressions = [one for one in session if isinstance(one.event, Impression)]
    events_by_id: dict[str, list[Admitted]] = {}
    for impression_id in sorted({_impression(one).impression_id for one in impressions}):
        of_one_id = [one for one in impressions if _impression(one).impression_id == impression_id]
        impression, counting = _list_of(of_one_id, settings)
        is_whole = any(one.number in counting and _impression(one).positions is None for one in of_one_id)
        fits = is_whole or len(impression.items) <= settings.items_max
        if fits:
            resolved.lists[impression_id] = impression
        events_by_id[impression_id] = of_one_id
        resolved.begins[impression_id] = min(one.event.ts for one in of_one_id)
        reused = _reused(of_one_id, impression.items, settings) if is_whole else set()
        for one in of_one_id:
            unused = "list_id_reused" if one.number in reused else "duplicate"
            resolved.outcomes[one.number] = unused if one.number not in counting else "shown" if fits else "too_many_items"
        if fits and not is_whole and _has_conflict(_in_time(of_one_id, settings)):
            resolved.conflicts.append(impression.input)
    for one in sorted(session, key=lambda one: (one.event.ts, settings.inputs.index(one.input), one.number)):
        if isinstance(one.event, Feedback):
            _join(one.number, one.event, resolved, events_by_id, settings)
    return resolved


def _impression(one: Admitted) -> Impression:
    assert isinstance(one.event, Impression)
    return one.event


def _list_of(of_one_id: Sequence[Admitted], settings: Settings) -> tuple[List, set[int]]:
    """Return the list of an impression_id in its session, and the numbers of the events that count for it."""
    in_order = _in_time(of_one_id, settings)
    wholes = [one for one in in_order if _impression(one).positions is None]
    if wholes:
        best = _impression(wholes[0])
        labels = best.experiments, best.segments
        return List(best.impression_id, best.ts, best.items, *labels, best.teams, wholes[0].input), {wholes[0].number}
    impression, counting = _union(in_order, settings.absolute_positions)
    has_whole_copy = any(_impression(one).positions is None for one in of_one_id)
    return impression, set() if has_whole_copy else counting


def _in_time(of_one_id: Sequence[Admitted], settings: Settings) -> list[Admitted]:
    """Return the events of an impression_id that are not too long after the first one, least (ts, content) first."""
    least_ts = min(one.event.ts for one in of_one_id)
    return _sorted((one for one in of_one_id if one.event.ts <= least_ts + settings.attribution_ms), settings)


def _sorted(events: Iterable[Admitted], settings: Settings) -> list[Admitted]:
    return sorted(events, key=lambda one: (_ts_and_content(_impression(one)), settings.inputs.index(one.input), one.number))


def _reused(of_one_id: Sequence[Admitted], items_of_list: tuple[str, ...], settings: Settings) -> set[int]:
    """Return the numbers of the whole copies that are the first of their items, if these are not the items of the list."""
    wholes = [one for one in _sorted(of_one_id, settings) if _impression(one).positions is None]
    first = {_impression(one).items: one.number for one in reversed(wholes)}
    return {number for items, number in first.items() if items != items_of_list}


def _has_conflict(fragments: Sequence[Admitted]) -> bool:
    """Return whether two items have the same place, each at its least position."""
    places: dict[str, set[int]] = {}
    for one in fragments:
        impression = _impression(one)
        for item, position in zip(impression.items, impression.positions or (), strict=True):
            places.setdefault(item, set()).add(position)
    least = [min(of_item) for of_item in places.values()]
    return len(least) != len(set(least))


def _ts_and_content(impression: Impression) -> tuple[object, ...]:
    """Return (ts, content). Whole copies have no positions; they are never compared with fragments."""
    return (impression.ts, impression.items, impression.positions or (), impression.experiments, impression.segments, impression.teams)


def _union(fragments: Sequence[Admitted], absolute: bool) -> tuple[List, set[int]]:
    """Return the list that fragments form, least (ts, content) first. Fragments that change nothing do not count.

    With absolute positions each item is at its position, or at the place after the item before it if that is lower.
    """
    position_of: dict[str, int] = {}
    team_of: dict[str, str] = {}
    counting = {fragments[0].number}
    for one in fragments:
        impression = _impression(one)
        before = dict(position_of)
        for item, position, team in zip(
            impression.items, impression.positions or (), impression.teams or ("",) * len(impression.items), strict=True
        ):
            if position < position_of.get(item, position + 1):
                position_of[item], team_of[item] = position, team
        if position_of != before:
            counting.add(one.number)
    items: list[str] = []
    for item in sorted(position_of, key=lambda item: (position_of[item], item)):
        while absolute and len(items) < position_of[item]:
            items.append("")
        items.append(item)
    first = _impression(fragments[0])
    teams = tuple(team_of.get(item, "") for item in items) if any(team_of.values()) else ()
    labels = first.experiments, first.segments
    return List(first.impression_id, first.ts, tuple(items), *labels, teams, fragments[0].input), counting


def _join(
    number: int,
    feedback: Feedback,
    resolved: Resolved,
    events_by_id: Mapping[str, Sequence[Admitted]],
    settings: Settings,
) -> None:
    """Set the outcome of one feedback. If it is matched, raise the grade of its item."""
    if not is_known(feedback.action, settings.rules):
        resolved.outcomes[number] = "unknown_action"
        return
    impression = _list_for(feedback, resolved.lists, events_by_id, settings)
    if isinstance(impression, str):
        resolved.outcomes[number] = impression
    elif feedback.ts - impression.ts > settings.attribution_ms:
        resolved.outcomes[number] = "too_old"
    else:
        resolved.outcomes[number] = "matched"
        place = (impression.impression_id, feedback.item_id)
        grade = grade_of(feedback, settings.rules)
        resolved.grades[place] = max(resolved.grades.get(place, 0), grade)
        if grade > 0:
            resolved.answers.setdefault(impression.impression_id, []).append(feedback)
        if (*place, feedback.action) in resolved.first_reactions:
            resolved.repeated.add(number)
        resolved.first_reactions.setdefault((*place, feedback.action), feedback.ts)


def _list_for(
    feedback: Feedback, lists: Mapping[str, List], events_by_id: Mapping[str, Sequence[Admitted]], settings: Settings
) -> List | str:
    """Return the list of a feedback, or the outcome if there is none."""
    impression_id = feedback.impression_id
    if impression_id is None:
        earlier = {name: [one for one in events if one.event.ts <= feedback.ts] for name, events in events_by_id.items()}
        candidates = [_list_of(events, settings)[0] for events in earlier.values() if events]
        showing = [impression for impression in candidates if feedback.item_id in impression.items]
        if not showing:
            return "out_of_list" if any(impression.impression_id in lists for impression in candidates) else "orphan"
        impression_id = max(showing, key=lambda impression: (impression.ts, impression.impression_id)).impression_id
    if impression_id not in lists:
        return "orphan"
    return lists[impression_id] if feedback.item_id in lists[impression_id].items else "out_of_list"
