"""Sentences about events that cannot mean what they seem to: times, refused events, list ids, and feedback that counts for no list. Pure.

The stream and samples of it (`samples`) share them, so each takes plain counts. Those about experiments are in `experiment_warnings`.
Unknown names are actions without a grade and event types, with counts and the name that is probably meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streammetrics.events.event_time import MILLISECONDS_ADVICE, seems_seconds
from streammetrics.events.outcomes import UNMATCHED
from streammetrics.events.unknown_names import ACTION, TYPE, nearest
from streammetrics.words.names import isolated
from streammetrics.words.numbers import counted, share_of
from streammetrics.words.sentences import DataWarning
from streammetrics.words.times import second_text, span_text

REFUSED_SHARE_MAX: Final = 0.05
"""A topic with a greater share of refused events has a sentence. Late events have their own (`input_warnings`)."""
FEEDBACK_MIN: Final = 100
"""Feedback that a stream needs for a sentence about it. A file that has ended needs none."""
LISTS_MIN: Final = 100
"""Final lists without a grade that have a sentence."""
CONFLICT_SHARE_MAX: Final = 0.01
"""The share of events, of a topic, whose list id belongs to another list, or whose places are taken, that has a sentence."""
DUPLICATE_SHARE_MAX: Final = 0.5
"""The share of duplicates, of the events of a topic, that has a sentence. A topic whose records were all sent again has this share."""
NAMED_SHARE_MIN: Final = 0.01
"""A larger share of events with a name that is not used has a sentence, and so has any name that resembles a used one."""
BEHIND_MS_MAX: Final = 3_600_000
"""Events that are dated longer before their records have a sentence: a time zone is missing, or it is another time."""
NAMES_MAX: Final = 5
SHOWS: Final = "impression"
"""The known name of what shows a list."""
_ADVICE: Final = {
    "orphan": "orphans have no earlier list of their user with their impression_id or item: compare these ids in lists and feedback",
    "out_of_list": "out of list means that the list does not show the item: compare the item ids in lists and feedback",
    "too_old": "too old means more than join.attribution_ms after the list",
}
SHOWN_MAX: Final = 20
"""Names of each kind in a report, most frequent first. The rest are counted together."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """One unknown name. `name` is None for all further names together. `meant` is the nearest known name, if one is close."""

    kind: str
    name: str | None
    events: int
    meant: str | None = None

    def __str__(self) -> str:
        """Return words for a terminal or a log.

        >>> print(UnknownName("action", "CLICK", 1_200, "click"), UnknownName("action", None, 3), sep="; ")
        CLICK 1,200 (did you mean click?); others 3
        """
        printed = "others" if self.name is None else isolated(self.name) or '""'
        return f"{printed} {self.events:,}" + (f" (did you mean {self.meant}?)" if self.meant else "")


def merge_names(stored: Iterable[tuple[str, str, int]], known_names: Mapping[str, Sequence[str]]) -> tuple[UnknownName, ...]:
    """Merge the counts of all tasks, (kind, name or empty, count). `known` has the known names by kind."""
    counts: dict[str, Counter[str]] = {}
    for kind, name, count in stored:
        counts.setdefault(kind, Counter())[name] += count
    return tuple(name for kind in sorted(counts) for name in _of_kind(kind, counts[kind], known_names.get(kind, ())))


def _of_kind(kind: str, counts: Counter[str], names: Sequence[str]) -> Iterator[UnknownName]:
    others = counts.pop("", 0)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    for name, count in ranked[:SHOWN_MAX]:
        yield UnknownName(kind, name, count, nearest(name, names))
    others += sum(count for _, count in ranked[SHOWN_MAX:])
    if others:
        yield UnknownName(kind, None, others)


def seconds_warnings(times: Iterable[tuple[str, int | None]]) -> Iterator[DataWarning]:
    """Yield one for all events whose times look like seconds. `times`: what has a time, and the time.

    >>> print(*seconds_warnings([("events of shop", 1_732_183_200), ("events of carts", None)]))
    The times of the events of shop are 1970-01-21 01:09:43 UTC or before. Multiply ts by 1,000 in the reader: it must be in \
milliseconds, not seconds.
    """
    newest: dict[str, int] = {}
    for what, at_ms in times:
        if at_ms is not None and seems_seconds(at_ms):
            newest[what] = max(at_ms, newest.get(what, at_ms))
    for what, at_ms in newest.items():
        yield DataWarning(f"seconds {what}", f"The times of the {what} are {second_text(at_ms)} or before", MILLISECONDS_ADVICE)


def refused_warnings(refused: Mapping[str, tuple[int, Mapping[str, int]]]) -> Iterator[DataWarning]:
    """Yield one for each topic of which many events are refused. `refused`: by topic, its events and its refused events by reason.

    >>> print(*refused_warnings({"shop": (80, {"bad_ts": 9, "late": 50, "future": 50, "bad_json": 1})}))
    12.5 % of the events of shop are refused, 10 of 80: bad_ts 9, bad_json 1. `decode` and the dead letters say why.
    """
    for topic, (events, reasons) in refused.items():
        by_reason = {reason: count for reason, count in reasons.items() if reason not in ("late", "future")}
        total = sum(by_reason.values())
        if total > REFUSED_SHARE_MAX * events:
            why = ", ".join(f"{reason} {count:,}" for reason, count in by_reason.items())
            text = f"{share_of(total, events)} of the events of {isolated(topic)} are refused, {total:,} of {events:,}: {why}"
            yield DataWarning(f"refused {topic}", text, "`decode` and the dead letters say why")


def record_time_warnings(
    topic: str, events: int, future: int, record_ms: int | None, *, behind_ms: int = 0, example: str = ""
) -> Iterator[DataWarning]:
    """Yield one if many events are dated long after, or long before, the timestamps of their records.

    future: events that are refused for this. record_ms: the latest timestamp of a record; None: no record has one above 0. behind_ms:
    how long before their records events are dated.

    >>> print(*record_time_warnings("shop", 10, 4, 1_732_183_200))
    40 % of the events of shop are dated too long after their records, 4 of 10, so they are refused as future. Records have timestamps \
up to 1970-01-21 01:09:43 UTC: let the producer write them in milliseconds, or set join.future_ms = "off".
    """
    of_topic = isolated(topic)
    if future > REFUSED_SHARE_MAX * events:
        text = f"{share_of(future, events)} of the events of {of_topic} are dated too long after their records, {future:,} of {events:,}"
        fix = "let the sender use one clock for events and records, or raise join.future_ms"
        if record_ms is None or seems_seconds(record_ms):
            stamps = "no timestamps above 0" if record_ms is None else f"timestamps up to {second_text(record_ms)}"
            fix = f'records have {stamps}: let the producer write them in milliseconds, or set join.future_ms = "off"'
        yield DataWarning(f"future {topic}", f"{text}, so they are refused as future{example}", fix)
    elif behind_ms > BEHIND_MS_MAX:
        text = f"The events of {of_topic} are dated {span_text(behind_ms)} before their records{example}"
        fix = "if they are not sent afterwards, yield the time of the event with its time zone as ts"
        yield DataWarning(f"behind {topic}", text, fix)


def feedback_warnings(
    counts: Mapping[str, int], names: Sequence[UnknownName], share_max: float, *, ended: bool, example: str = ""
) -> Iterator[DataWarning]:
    """Yield those about feedback that counts for no list, or that has no grade. `counts` are counts by reason.

    >>> clicks = UnknownName("action", "CLICK", 2, "click")
    >>> print(*feedback_warnings({"unknown_action": 2}, [clicks], 0.25, ended=True))
    No feedback has a grade: the action of all 2 is unknown, such as CLICK (did you mean click?). Name them in join.grades, or yield \
others in the reader.
    """
    unmatched = {reason: counts.get(reason, 0) for reason in UNMATCHED}
    unknown, joined = counts.get("unknown_action", 0), counts.get("matched", 0) + sum(unmatched.values())
    needed = 1 if ended else FEEDBACK_MIN
    if unknown >= needed and not joined:
        text = f"No feedback has a grade: the action of all {unknown:,} is unknown{_examples(names)}"
        yield DataWarning("no grades", text, "name them in join.grades, or yield others in the reader")
    else:
        actions = [entry for entry in names if entry.kind == ACTION and unknown + joined >= needed]
        yield from name_warnings(actions, unknown + joined, "the feedback")
    if joined >= needed and sum(unmatched.values()) > share_max * joined:
        worst = max(unmatched, key=lambda reason: unmatched[reason])
        missing = sum(unmatched.values())
        why = ", ".join(f"{reason} {count:,}" for reason, count in unmatched.items() if count)
        text = f"{share_of(missing, joined)} of the feedback counts for no list, {missing:,} of {joined:,}: {why}{example}"
        yield DataWarning("unmatched", text, _ADVICE[worst])


def name_warnings(names: Iterable[UnknownName], events: int, of_what: str) -> Iterator[DataWarning]:
    """Yield one for each name that is not used, and is common or resembles a used one. `events` are all of their kind.

    >>> print(*name_warnings([UnknownName("action", "CLICK", 9, "click"), UnknownName("action", "hover", 1)], 200, "the feedback"))
    4.5 % of the feedback, 9 of 200, has the action CLICK, which has no grade (did you mean click?). Name it in join.grades, with grade 0 \
if it says nothing about the item.
    """
    named = [entry for entry in names if entry.name is not None and (entry.meant or entry.events > NAMED_SHARE_MIN * events)]
    for entry in named[:NAMES_MAX]:
        why, fix = "is not read", "yield impression, feedback or exposure as type, or let the reader ignore these records"
        if entry.kind == ACTION:
            why, fix = "has no grade", "name it in join.grades, with grade 0 if it says nothing about the item"
        meant = f" (did you mean {entry.meant}?)" if entry.meant else ""
        share = f"{share_of(entry.events, events)} of {of_what}, {entry.events:,} of {max(entry.events, events):,}"
        name = isolated(str(entry.name)) or '""'
        yield DataWarning(f"{entry.kind} {entry.name}", f"{share}, has the {entry.kind} {name}, which {why}{meant}", fix)


def type_warnings(names: Iterable[UnknownName], events: int) -> Iterator[DataWarning]:
    """Yield those about types that are no event, of all events."""
    yield from name_warnings((entry for entry in names if entry.kind == TYPE), events, "the events")


def grade_warnings(counts: Mapping[str, int], lists: int, graded: int) -> Iterator[DataWarning]:
    """Yield one if all metrics are 0 because no feedback came, or because none has a grade.

    lists: final ones. graded: those of them, and of live windows, with a grade above 0.

    >>> print(*grade_warnings({}, 300, 0))
    None of 300 final lists has feedback, so all metrics are 0. Let the inputs hold the reactions of users, too.
    >>> print(*grade_warnings({"ignored": 290}, 300, 0))
    None of 300 final lists has feedback, so all metrics are 0. Let the inputs hold the reactions of users, too; if they are in the \
290 records that the reader ignores, let it yield them.
    >>> print(*grade_warnings({"matched": 200}, 300, 0))
    No feedback has a grade above 0, so all metrics are 0. Compare the actions and values of all 200 that match a list with join.grades.
    """
    matched = counts.get("matched", 0)
    if graded or lists < LISTS_MIN:
        return
    if matched >= FEEDBACK_MIN:
        fix = f"compare the actions and values of all {matched:,} that match a list with join.grades"
        yield DataWarning("grades of 0", "No feedback has a grade above 0, so all metrics are 0", fix)
    elif not any(counts.get(reason, 0) for reason in ("matched", "unknown_action", *UNMATCHED)):
        text = f"None of {counted(lists, 'final list')} has feedback, so all metrics are 0"
        ignored = counts.get("ignored", 0)
        them = f"; if they are in the {counted(ignored, 'record')} that the reader ignores, let it yield them" if ignored else ""
        yield DataWarning("no feedback", text, f"let the inputs hold the reactions of users, too{them}")


def _examples(names: Sequence[UnknownName]) -> str:
    named = [entry for entry in names if entry.kind == ACTION and entry.name is not None][:NAMES_MAX]
    words = (f"{isolated(str(entry.name))}" + (f" (did you mean {entry.meant}?)" if entry.meant else "") for entry in named)
    return f", such as {', '.join(words)}" if named else ""


def list_id_warnings(topics: Mapping[str, Mapping[str, int]], example: str = "") -> Iterator[DataWarning]:
    """Yield those about list ids that name several lists, and about lists of which two items claim one place.

    `topics` are counts by topic.

    >>> print(*list_id_warnings({"shop": {"events": 90, "list_id_reused": 7}}))
    7 lists of shop have the id of another list, but other items, so they count for nothing, nor does feedback on their items. Yield an \
impression_id of its own for each list, such as f"{search}/{page}". Pages of one list go on counting positions.
    >>> print(*list_id_warnings({"shop": {"events": 90, "place_conflict": 1}}))
    1 list of shop has two items that claim one place, so its ranks are not what users saw. If pages begin at the first place again, let \
a reader add the start of the page to each position.
    """
    for topic, counts in topics.items():
        few, of_topic = CONFLICT_SHARE_MAX * counts.get("events", 0), isolated(topic)
        reused, taken = counts.get("list_id_reused", 0), counts.get("place_conflict", 0)
        if reused > few:
            have, they = ("has", "it counts") if reused == 1 else ("have", "they count")
            text = (
                f"{counted(reused, 'list')} of {of_topic} {have} the id of another list, but other items{example}, so {they} for"
                f" nothing, nor does feedback on {'its' if reused == 1 else 'their'} items"
            )
            fix = 'yield an impression_id of its own for each list, such as f"{search}/{page}"'
            yield DataWarning(f"list ids {topic}", text, f"{fix}. Pages of one list go on counting positions")
        if taken > few:
            have, its = ("has", "its") if taken == 1 else ("have", "their")
            text = f"{counted(taken, 'list')} of {of_topic} {have} two items that claim one place, so {its} ranks are not what users saw"
            fix = "if pages begin at the first place again, let a reader add the start of the page to each position"
            yield DataWarning(f"places {topic}", text, fix)


def duplicate_warnings(topics: Mapping[str, Mapping[str, int]], *, ended: bool) -> Iterator[DataWarning]:
    """Yield one for each topic of which most events are duplicates. `topics` are counts by topic.

    >>> print(*duplicate_warnings({"shop": {"events": 1_000, "duplicate": 970}}, ended=True))
    97 % of the events of shop are duplicates, 970 of 1,000. They have the id and the items of an earlier list of their session, or \
are the same exposure again, so they count for nothing. If users saw each of these lists, yield an impression_id of its own for each.
    """
    for topic, counts in topics.items():
        events, duplicates = counts.get("events", 0), counts.get("duplicate", 0)
        if duplicates > DUPLICATE_SHARE_MAX * events and (ended or events >= FEEDBACK_MIN):
            text = (
                f"{share_of(duplicates, events)} of the events of {isolated(topic)} are duplicates, {duplicates:,} of {events:,}. They"
                " have the id and the items of an earlier list of their session, or are the same exposure again, so they count for nothing"
            )
            yield DataWarning(f"duplicates {topic}", text, "if users saw each of these lists, yield an impression_id of its own for each")


def no_list_warnings(counts: Mapping[str, int], names: Sequence[UnknownName], refused: int, *, ended: bool) -> Iterator[DataWarning]:
    """Yield one if many events came and none is a list.

    >>> print(*no_list_warnings({"events": 4}, [UnknownName("action", "view", 3, "impression")], 0, ended=True))
    None of 4 events is a list. If events with the action view show items, let a reader yield them as lists.
    """
    events = counts.get("events", 0) - refused - counts.get("ignored", 0)
    if events < (1 if ended else FEEDBACK_MIN):
        return
    shows = next((entry.name for entry in names if entry.kind == ACTION and entry.meant == SHOWS), None)
    fix = "let the inputs hold the lists that users saw, too"
    if shows is not None:
        fix = f"if events with the action {isolated(shows)} show items, let a reader yield them as lists"
    yield DataWarning("no lists", f"None of {counted(events, 'event')} is a list", fix)


def by_topic(counts: Mapping[tuple[str, str], int]) -> dict[str, Counter[str]]:
    """Return the counts by reason of each topic. `counts`: by (reason, topic)."""
    topics: dict[str, Counter[str]] = {}
    for (reason, topic), count in counts.items():
        topics.setdefault(topic, Counter())[reason] += count
    return topics
