"""Sentences about a sample of events, for `decode` and `doctor`: those of the stream as far as a sample shows them, with examples. Pure.

The join here is simple: it only asks whether feedback can meet a list. Feedback often has its list before the first event of a sample, so
it counts as missed only where the sample is the whole input, where its lists go back for long enough, or where its user has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from streammetrics.events.event_time import MILLISECONDS_ADVICE, seems_seconds
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.events.unknown_names import ACTION, NULL_NOTE, NULL_VARIANT
from streammetrics.reports.data_warnings import (
    feedback_warnings,
    list_id_warnings,
    merge_names,
    record_time_warnings,
    seconds_warnings,
)
from streammetrics.reports.experiment_warnings import experiment_warnings, null_warnings, one_list_warnings, spelling_warnings
from streammetrics.words.names import isolated
from streammetrics.words.numbers import share_of
from streammetrics.words.sentences import DataWarning
from streammetrics.words.times import second_text

LISTS_MIN: Final = 10
"""Lists of a sample that say something about all lists."""
NAMED_LISTS_MIN: Final = 100
"""Lists of a part of the input, none of which is in an experiment that has settings. It may have few lists."""
USERS_MIN: Final = 100
"""Users of a sample with one list each that have a sentence, if its lists cover USERS_MS."""
USERS_MS: Final = 1_800_000
FEEDBACK_MIN: Final = 10
"""Feedback that misses its list in a sample, with a sentence."""
LISTS_BEFORE_MS: Final = 600_000
"""The lists of a sample must begin so long before feedback that is said to miss its list."""
REPEATED_SHARE_MAX: Final = 0.01
"""A larger share of lists that show an item twice has a sentence."""
ONE_ID_SHARE_MAX: Final = 0.1
"""A larger share of lists with one id has a sentence."""


class SampledEvent(NamedTuple):
    """An event and the timestamp of its record (ms): -1 if it has none, as a line of a file."""

    event: Event
    record_ms: int = -1


@dataclass(frozen=True, slots=True)
class SampleRules:
    """What is known of the configuration. settings: as in a report. is_whole: the sample is all that there is."""

    grades: Collection[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = False


def sample_warnings(topics: Mapping[str, Sequence[SampledEvent]], rules: SampleRules) -> list[DataWarning]:
    """Return what makes the events of a sample doubtful. topics: the events of each, in the order of the log.

    >>> impression = Impression("r-1", "u7", 1_732_183_200_000, ("a", "b"))
    >>> click = Feedback("u7", 1_732_183_200, "b", "click", None, "r-1")
    >>> print(*sample_warnings({"shop": [SampledEvent(impression), SampledEvent(click)]}, SampleRules(["click"])))
    The times of the feedback of shop are 1970-01-21 01:09:43 UTC or before, those of the lists 2024-11-21 10:00:00 UTC or before. \
Multiply ts by 1,000 in the reader: it must be in milliseconds, not seconds.
    """
    events = [sample.event for sampled in topics.values() for sample in sampled]
    lists = [event for event in events if type(event) is Impression]
    feedback = [event for event in events if type(event) is Feedback]
    seconds = [*_unit_warnings(topics)]
    return [
        *seconds,
        *(warning for topic, sampled in topics.items() for warning in _record_warnings(topic, sampled, rules.settings.get("future_ms"))),
        *_feedback(lists, feedback, rules, joins=not seconds),
        *_ids(topics),
        *_experiments(lists, rules),
        *_users(lists),
    ]


def _unit_warnings(topics: Mapping[str, Sequence[SampledEvent]]) -> Iterator[DataWarning]:
    """Name what has times in seconds: all events of a topic, or its lists or its feedback only."""
    times: dict[str, list[int]] = {}
    for topic, sampled in topics.items():
        for kind, name in ((Impression, "lists"), (Feedback, "feedback")):
            if ts_of_kind := [sample.event.ts for sample in sampled if type(sample.event) is kind]:
                times[f"{name} of {isolated(topic)}"] = ts_of_kind
    small = {
        what: max(at for at in ts_of_kind if seems_seconds(at)) for what, ts_of_kind in times.items() if any(map(seems_seconds, ts_of_kind))
    }
    others = {what: max(ts_of_kind) for what, ts_of_kind in times.items() if not any(map(seems_seconds, ts_of_kind))}
    if not (small and others):
        yield from seconds_warnings(small.items())
        return
    other, other_ms = next(iter(others.items()))
    for what, at_ms in small.items():
        those = f"those of the {_short(other, what)} {second_text(other_ms)} or before"
        text = f"The times of the {what} are {second_text(at_ms)} or before, {those}"
        yield DataWarning(f"seconds {what}", text, MILLISECONDS_ADVICE)


def _short(other: str, what: str) -> str:
    """Leave the topic out of the second name if it is that of the first."""
    return other.partition(" of ")[0] if other.partition(" of ")[2] == what.partition(" of ")[2] else other


def _record_warnings(topic: str, sampled: Sequence[SampledEvent], future_ms: int | None) -> Iterator[DataWarning]:
    stamped = [sample for sample in sampled if sample.record_ms >= 0 and not seems_seconds(sample.event.ts)]
    if not stamped:
        return
    ahead = [sample for sample in stamped if future_ms is not None and sample.event.ts > sample.record_ms + future_ms]
    delays = sorted(sample.record_ms - sample.event.ts for sample in stamped)
    example = ahead[0] if ahead else stamped[-1]
    such = f", such as {second_text(example.event.ts)} in a record of {second_text(example.record_ms)}"
    record_ms = max(sample.record_ms for sample in stamped) or None
    yield from record_time_warnings(topic, len(stamped), len(ahead), record_ms, behind_ms=delays[len(delays) // 2], example=such)


def _feedback(lists: Sequence[Impression], feedback: Sequence[Feedback], rules: SampleRules, *, joins: bool) -> Iterator[DataWarning]:
    actions = Counter(reaction.action for reaction in feedback if reaction.action not in rules.grades)
    names = merge_names([(ACTION, action, count) for action, count in actions.items()], {ACTION: [*rules.grades]})
    counts = Counter({"unknown_action": sum(actions.values())})
    examples: dict[str, str] = {}
    if joins and lists:
        joined = SampleJoin(lists)
        first_ms = min(impression.ts for impression in lists)
        for reaction in feedback:
            if reaction.action in rules.grades:
                outcome, example = joined.outcome(reaction)
                is_covered = reaction.ts - first_ms >= LISTS_BEFORE_MS or joined.has_list_before(reaction)
                if rules.is_whole or outcome != "orphan" or is_covered:
                    counts[outcome] += 1
                    examples.setdefault(outcome, example)
        if not rules.is_whole and (counts["matched"] or counts["orphan"] < FEEDBACK_MIN):
            counts["orphan"] = 0
    elif len(names) < len({reaction.action for reaction in feedback}):  # some have a grade
        counts["matched"] = sum(reaction.action in rules.grades for reaction in feedback)
    worst = "orphan" if counts["orphan"] >= counts["out_of_list"] else "out_of_list"
    share_max = rules.settings.get("experiments", {}).get("unmatched_share_max", 0.25)
    yield from feedback_warnings(counts, names, share_max, ended=True, example=examples.get(worst, ""))


class SampleJoin:
    """The lists of a sample by id and by user."""

    def __init__(self, lists: Iterable[Impression]) -> None:
        self._by_id: dict[str, list[Impression]] = defaultdict(list)
        self._by_user: dict[str, list[Impression]] = defaultdict(list)
        for impression in lists:
            self._by_id[impression.impression_id].append(impression)
            self._by_user[impression.user_id].append(impression)

    def has_list_before(self, feedback: Feedback) -> bool:
        """Whether the user of feedback has a list before it."""
        return any(impression.ts <= feedback.ts for impression in self._by_user.get(feedback.user_id, ()))

    def outcome(self, feedback: Feedback) -> tuple[str, str]:
        """Return what becomes of feedback, and words about it."""
        what, name = f"{isolated(feedback.action)} on {isolated(feedback.item_id)}", feedback.impression_id
        user = isolated(feedback.user_id)
        if name is None:
            lists = [impression for impression in self._by_user.get(feedback.user_id, ()) if impression.ts <= feedback.ts]
            where = f"user {user}"
        else:
            of_id = self._by_id.get(name, [])
            lists = [impression for impression in of_id if impression.user_id == feedback.user_id]
            where = f"list {isolated(name)}"
            if of_id and not lists:
                return "orphan", f", such as {what} in {where} by user {user}, which is a list of user {isolated(of_id[0].user_id)}"
        if not lists:
            return "orphan", f", such as {what} in {where}: no list has that id" if name else f", such as {what} by {where}"
        if any(feedback.item_id in impression.items for impression in lists):
            return "matched", ""
        items = ", ".join(map(isolated, lists[-1].items[:3]))
        return "out_of_list", f", such as {what} in {where}, which shows {items}"


def _ids(topics: Mapping[str, Sequence[SampledEvent]]) -> Iterator[DataWarning]:
    """Find items that repeat inside lists, and ids that many lists share."""
    for topic, sampled in topics.items():
        lists = [sample.event for sample in sampled if type(sample.event) is Impression and sample.event.positions is None]
        repeats = [
            (impression, item) for impression in lists for item, count in Counter(impression.items).most_common(1) if item and count > 1
        ]
        if len(repeats) > REPEATED_SHARE_MAX * len(lists):
            impression, item = repeats[0]
            share = f"{share_of(len(repeats), len(lists))} of the lists of {isolated(topic)}, {len(repeats):,} of {len(lists):,},"
            text = f"{share} show an item twice, such as {isolated(item)} in list {isolated(impression.impression_id)}"
            yield DataWarning(f"repeats {topic}", text, "yield the ids of the items themselves, not of their brand, shop or query")
        contents = {(impression.impression_id, impression.user_id, impression.items) for impression in lists}
        by_id = Counter(name for name, _, _ in contents)
        for name, count in by_id.most_common(1):
            if count > 2 and count > ONE_ID_SHARE_MAX * len(contents):
                counts = {topic: {"events": len(contents), "list_id_reused": count}}
                yield from list_id_warnings(counts, f", {isolated(name)}")


def _experiments(lists: Sequence[Impression], rules: SampleRules) -> Iterator[DataWarning]:
    arms = Counter(label for impression in lists for label in impression.experiments)
    nulls = Counter(note.removeprefix(NULL_NOTE) for impression in lists for note in impression.label_notes if note.startswith(NULL_NOTE))
    named = rules.settings.get("experiments", {}).get("named", {})
    yield from spelling_warnings(arms)
    yield from null_warnings(arms, merge_names([(NULL_VARIANT, *null) for null in nulls.items()], {}), named)
    if "exposures" not in rules.settings and (rules.is_whole or len(lists) >= LISTS_MIN):
        settings = rules.settings
        if not rules.is_whole and len(lists) < NAMED_LISTS_MIN:
            sent = {name: rule for name, rule in named.items() if any(name == experiment for experiment, _ in arms)}
            settings = {"experiments": {**settings.get("experiments", {}), "named": sent}}
        yield from experiment_warnings(arms, len(lists), settings, ended=rules.is_whole, lists_min=LISTS_MIN)


def _users(lists: Sequence[Impression]) -> Iterator[DataWarning]:
    """Compare users and lists, if the lists cover a time in which some users would see several."""
    users = {impression.user_id: impression for impression in lists}
    names = {(impression.user_id, impression.impression_id) for impression in lists}
    if len(users) < USERS_MIN or max(impression.ts for impression in lists) - min(impression.ts for impression in lists) < USERS_MS:
        return
    such = f", such as {', '.join(map(isolated, list(users)[:3]))}"
    yield from one_list_warnings("this sample", len(users), len(names), such)
