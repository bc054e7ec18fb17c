"""Sentences about events that cannot mean what they seem to: times in seconds, refused events, feedback that counts for no list. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from streammetrics.events.event_time import seems_seconds
from streammetrics.events.outcomes import UNMATCHED
from streammetrics.reports.late_events import LATE_SHARE_MAX
from streammetrics.reports.text import counted, fit, isolated
from streammetrics.reports.time_text import second_text
from streammetrics.reports.unknown_names import UnknownName

REFUSED_SHARE_MAX: Final = LATE_SHARE_MAX
"""A topic with a greater share of refused events has a sentence. Late events have their own (`late_events`)."""
UNMATCHED_SHARE_MAX: Final = 0.25
"""The share of feedback without a list that has a sentence, if `experiments.unmatched_share_max` is not in the settings."""
FEEDBACK_MIN: Final = 100
"""Feedback that a stream needs for a sentence about it. A file that has ended needs none."""
LISTS_MIN: Final = 100
"""Final lists without a grade that have a sentence."""
FOLDED_SHARE_MAX: Final = 0.01
"""The share of lists in the value `_other` of a segment, of all events, that has a sentence."""
CONFLICT_SHARE_MAX: Final = 0.01
"""The share of events, of a topic, whose list id belongs to another list, or whose places are taken, that has a sentence."""
DUPLICATE_SHARE_MAX: Final = 0.5
"""The share of duplicates, of the events of a topic, that has a sentence. A topic whose records were all sent again has this share."""
NAMED_MIN: Final = 1_000
"""Events that a stream needs for a sentence about an experiment without lists."""
NAMES_MAX: Final = 5
NO_EXPERIMENT: Final = "No list names an experiment without settings, either: compare the settings with the events"
SHOWS: Final = "impression"
"""The known name of what shows a list."""
_ADVICE: Final = {
    "orphan": "Orphans have no earlier list of their user with their impression_id or item: compare these ids in lists and feedback",
    "out_of_list": "Out of list means that the list does not show the item: compare the item ids in lists and feedback",
    "too_old": "Too old means more than join.attribution_ms after the list",
}


def seconds_sentences(known_ms: Iterable[tuple[str, int | None]]) -> Iterator[str]:
    """Yield a sentence for each topic with times that look like seconds. `known_ms`: (topic, known time) of each input.

    >>> print(*seconds_sentences([("shop", 1_732_183_200), ("carts", None)]))
    The events of shop are from 1970-01-21 01:09:43 UTC or before: ts must be in milliseconds, not seconds.
    """
    newest: dict[str, int] = {}
    for topic, at_ms in known_ms:
        if at_ms is not None and seems_seconds(at_ms):
            newest[topic] = max(at_ms, newest.get(topic, at_ms))
    for topic, at_ms in newest.items():
        yield f"The events of {isolated(topic)} are from {second_text(at_ms)} or before: ts must be in milliseconds, not seconds."


def refused_sentences(refused: Mapping[str, tuple[int, Mapping[str, int]]]) -> Iterator[str]:
    """Yield a sentence for each topic of which many events are refused. `refused`: by topic, its events and its refused events by reason.

    >>> print(*refused_sentences({"shop": (80, {"bad_ts": 9, "late": 50, "bad_json": 1})}))
    12.5 % of the events of shop are refused, 10 of 80: bad_ts 9, bad_json 1. `decode` and the dead letters say why.
    """
    for topic, (events, reasons) in refused.items():
        shown = {reason: count for reason, count in reasons.items() if reason != "late"}
        total = sum(shown.values())
        if total > REFUSED_SHARE_MAX * events:
            why = ", ".join(f"{reason} {count:,}" for reason, count in shown.items())
            share = f"{100 * total / max(total, events):.1f} %"
            refusals = f"{share} of the events of {isolated(topic)} are refused, {total:,} of {events:,}: {why}"
            yield f"{refusals}. `decode` and the dead letters say why."


def feedback_sentences(counts: Mapping[str, int], names: Sequence[UnknownName], share_max: float, *, ended: bool) -> Iterator[str]:
    """Yield sentences about feedback that counts for no list, or that has no grade. `counts` are counts by reason.

    >>> clicks = UnknownName("action", "CLICK", 2, "click")
    >>> print(*feedback_sentences({"unknown_action": 2}, [clicks], 0.25, ended=True))
    No feedback has a grade: the action of all 2 is unknown, such as CLICK (did you mean click?). Name them in join.grades.
    """
    unmatched = {reason: counts.get(reason, 0) for reason in UNMATCHED}
    unknown, joined = counts.get("unknown_action", 0), counts.get("matched", 0) + sum(unmatched.values())
    needed = 1 if ended else FEEDBACK_MIN
    if unknown >= needed and not joined:
        yield f"No feedback has a grade: the action of all {unknown:,} is unknown{_examples(names)}. Name them in join.grades."
    if joined >= needed and sum(unmatched.values()) > share_max * joined:
        worst = max(unmatched, key=lambda reason: unmatched[reason])
        missing = sum(unmatched.values())
        why = ", ".join(f"{reason} {count:,}" for reason, count in unmatched.items() if count)
        yield f"{100 * missing / joined:.1f} % of the feedback counts for no list, {missing:,} of {joined:,}: {why}. {_ADVICE[worst]}."


def grade_sentences(counts: Mapping[str, int], lists: int, graded: int) -> Iterator[str]:
    """Yield a sentence if all metrics are 0 because no feedback came, or because none has a grade.

    lists: final ones. graded: those of them, and of live windows, with a grade above 0.

    >>> print(*grade_sentences({}, 300, 0))
    None of 300 final lists has feedback, so all metrics are 0. Do the inputs hold the reactions of users?
    >>> print(*grade_sentences({"matched": 200}, 300, 0))
    No feedback has a grade above 0, so all metrics are 0: compare the actions and values of all 200 that match a list with join.grades.
    """
    matched = counts.get("matched", 0)
    if graded or lists < LISTS_MIN:
        return
    if matched >= FEEDBACK_MIN:
        compare = f"compare the actions and values of all {matched:,} that match a list with join.grades"
        yield f"No feedback has a grade above 0, so all metrics are 0: {compare}."
    elif not any(counts.get(reason, 0) for reason in ("matched", "unknown_action", *UNMATCHED)):
        have = f"None of {counted(lists, 'final list')} has feedback, so all metrics are 0"
        yield f"{have}. Do the inputs hold the reactions of users?"


def label_sentences(topics: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a sentence for each topic with many labels that are no text. `topics` are counts by topic.

    >>> print(*label_sentences({"shop": {"events": 9, "label_bad_type": 2, "label_empty": 4}}))
    2 labels of lists of shop are not used, because they are no text. Experiments and segments are objects of texts, such as \
"experiments": {"ranker-v7": "treatment"}.
    """
    for topic, counts in topics.items():
        if (wrong := counts.get("label_bad_type", 0)) > CONFLICT_SHARE_MAX * counts.get("events", 0):
            why = f"{'is' if wrong == 1 else 'are'} not used, because {'it is' if wrong == 1 else 'they are'} no text"
            form = 'Experiments and segments are objects of texts, such as "experiments": {"ranker-v7": "treatment"}.'
            yield f"{counted(wrong, 'label')} of lists of {isolated(topic)} {why}. {form}"


def _examples(names: Sequence[UnknownName]) -> str:
    shown = [each for each in names if each.kind == "action" and each.name is not None][:NAMES_MAX]
    words = (f"{isolated(str(each.name))}" + (f" (did you mean {each.meant}?)" if each.meant else "") for each in shown)
    return f", such as {', '.join(words)}" if shown else ""


def list_id_sentences(topics: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield sentences about list ids that name several lists, and about lists of which two items claim one place.

    `topics` are counts by topic.

    >>> print(*list_id_sentences({"shop": {"events": 90, "list_id_reused": 7}}))
    7 lists of shop have the id of another list of their session, but other items. They count for nothing, nor does feedback on their \
items. Send an own id with each list, or compose one in a mapping, such as impression_id = "{search}/{page}". For pages of one \
list set page_start, or events.ubi_page_start.
    >>> print(*list_id_sentences({"shop": {"events": 90, "place_conflict": 1}}))
    1 list of shop has two items that claim one place, so its ranks are not what users saw. If pages begin at the first place again, set \
page_start, or events.ubi_page_start.
    """
    for topic, counts in topics.items():
        few, of_topic = CONFLICT_SHARE_MAX * counts.get("events", 0), isolated(topic)
        reused, taken = counts.get("list_id_reused", 0), counts.get("place_conflict", 0)
        if reused > few:
            have = "has" if reused == 1 else "have"
            yield (
                f"{counted(reused, 'list')} of {of_topic} {have} the id of another list of their session, but other items. They count for"
                " nothing, nor does feedback on their items. Send an own id with each list, or compose one in a mapping, such as"
                ' impression_id = "{search}/{page}". For pages of one list set page_start, or events.ubi_page_start.'
            )
        if taken > few:
            have, its = ("has", "its") if taken == 1 else ("have", "their")
            yield (
                f"{counted(taken, 'list')} of {of_topic} {have} two items that claim one place, so {its} ranks are not what users saw. If"
                " pages begin at the first place again, set page_start, or events.ubi_page_start."
            )


def duplicate_sentences(topics: Mapping[str, Mapping[str, int]], *, ended: bool) -> Iterator[str]:
    """Yield a sentence for each topic of which most events are duplicates. `topics` are counts by topic.

    >>> print(*duplicate_sentences({"shop": {"events": 1_000, "duplicate": 970}}, ended=True))
    97.0 % of the events of shop are duplicates, 970 of 1,000. They have the id and the items of an earlier list of their session, or \
are the same exposure again, so they count for nothing. If users saw each of these lists, send an own id with each.
    """
    for topic, counts in topics.items():
        events, duplicates = counts.get("events", 0), counts.get("duplicate", 0)
        if duplicates > DUPLICATE_SHARE_MAX * events and (ended or events >= FEEDBACK_MIN):
            share = f"{100 * duplicates / max(duplicates, events):.1f} %"
            yield (
                f"{share} of the events of {isolated(topic)} are duplicates, {duplicates:,} of {events:,}. They have the id and the items"
                " of an earlier list of their session, or are the same exposure again, so they count for nothing. If users saw each of"
                " these lists, send an own id with each."
            )


def no_list_sentences(counts: Mapping[str, int], names: Sequence[UnknownName], refused: int, *, ended: bool) -> Iterator[str]:
    """Yield a sentence if many events came and none is a list.

    >>> print(*no_list_sentences({"events": 4}, [UnknownName("action", "view", 3, "impression")], 0, ended=True))
    None of 4 events is a list. If events with the action view show items, set events.ubi_exposure = "view".
    """
    events = counts.get("events", 0) - refused - counts.get("ignored", 0)
    if events < (1 if ended else FEEDBACK_MIN):
        return
    shows = next((each.name for each in names if each.kind == "action" and each.meant == SHOWS), None)
    advice = "Do the inputs hold the lists that users saw?"
    if shows is not None:
        advice = f"If events with the action {isolated(shows)} show items, set events.ubi_exposure = {json.dumps(fit(shows))}."
    yield f"None of {counted(events, 'event')} is a list. {advice}"


def folded_sentences(counts: Mapping[str, int], settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about lists that lost a label because there are too many of its kind.

    >>> print(*folded_sentences({"events": 99, "too_many_groups": 20}, {"segments": ["query"], "groups_max": 10}))
    20 lists count under the segment value _other, because there are more than windows.groups_max = 10 groups. Keep only segments with \
few values in windows.segments, now query.
    """
    folded = counts.get("too_many_groups", 0)
    if folded > FOLDED_SHARE_MAX * counts.get("events", 0):
        yield (
            f"{counted(folded, 'list')} count under the segment value _other, because there are more than"
            f" windows.groups_max = {settings.get('groups_max')} groups. Keep only segments with few values in windows.segments, now"
            f" {', '.join(map(isolated, settings.get('segments', ())))}."
        )
    if lost := counts.get("too_many_variants", 0):
        yield (
            f"{counted(lost, 'list')} lost a variant, because there are more than experiments.variants_max or windows.groups_max allow:"
            " do not send ids of users or requests as experiments or variants."
        )


def experiment_sentences(named: Mapping[str, Any], sent: Collection[str], shown: Collection[str], *, ended: bool) -> Iterator[str]:
    """Yield sentences about settings of experiments that fit no list.

    `named` are the settings by experiment. `sent` are the experiments that final lists have, and `shown` those with counted lists. In a
    stream that goes on, an experiment with a start, an end or stages may be over or yet to come, so it needs no list.

    >>> named = {"ranker-v7": {"stages": [{"start": "2026-02-01T09:00:00Z"}]}}
    >>> print(*experiment_sentences(named, ["ranker-v7"], [], ended=True))
    No final list of experiment ranker-v7 is in one of its stages, so it has no numbers. Compare the stages' starts with the times of the \
lists.
    >>> print(*experiment_sentences({"ranker-v8": {}}, ["ranker-v7"], ["ranker-v7"], ended=True))
    No list is in experiment ranker-v8, which has settings. Experiments of lists without settings: ranker-v7.
    """
    for name in sorted(sent):
        own = named.get(name, {})
        if own.get("stages") and name not in shown:
            label = own.get("stage_label")
            compare = f"names with the lists' values of the segment {isolated(label)}" if label else "starts with the times of the lists"
            nothing = f"No final list of experiment {isolated(name)} is in one of its stages, so it has no numbers"
            yield f"{nothing}. Compare the stages' {compare}."
    missing = sorted(name for name in named.keys() - set(sent) if ended or not any(map(named[name].get, ("start", "end", "stages"))))
    if missing:
        others = sorted(set(sent) - named.keys())
        have = f"{'experiment' if len(missing) == 1 else 'experiments'} {', '.join(map(isolated, missing[:NAMES_MAX]))}"
        settings = "has" if len(missing) == 1 else "have"
        found = f"Experiments of lists without settings: {', '.join(map(isolated, others[:NAMES_MAX]))}" if others else NO_EXPERIMENT
        yield f"No list is in {have}, which {settings} settings. {found}."


def spelling_sentences(arms: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for names that differ only in case or in spaces around them. `arms`: (experiment, variant), "" for none.

    >>> print(*spelling_sentences([("ranker", "new"), ("ranker", "New "), ("ranker", "old")]))
    Variants of ranker differ only in case or spaces, so they count as different ones: "New ", "new". Send one spelling.
    """
    experiments: dict[str, set[str]] = {}
    for experiment, variant in arms:
        experiments.setdefault(experiment, set()).add(variant)
    kinds = {"Experiments": experiments.keys() - {""}}
    kinds |= {f"Variants of {isolated(experiment)}": found - {""} for experiment, found in sorted(experiments.items())}
    for kind, names in kinds.items():
        spellings: dict[str, list[str]] = {}
        for name in sorted(names):
            spellings.setdefault(name.strip().casefold(), []).append(name)
        for alike in spellings.values():
            if len(alike) > 1:
                listed = ", ".join(f'"{isolated(name)}"' for name in alike[:NAMES_MAX])
                yield f"{kind} differ only in case or spaces, so they count as different ones: {listed}. Send one spelling."


def by_topic(counts: Mapping[tuple[str, str], int]) -> dict[str, Counter[str]]:
    """Return the counts by reason of each topic. `counts`: by (reason, topic)."""
    topics: dict[str, Counter[str]] = {}
    for (reason, topic), count in counts.items():
        topics.setdefault(topic, Counter())[reason] += count
    return topics
