"""Sentences about labels of lists that give no verdict, or another one than was meant: experiments, variants, segments and users. Pure.

The stream and samples of it share them. Each is about numbers of lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.policy import INTERLEAVED
from streammetrics.reports.data_warnings import CONFLICT_SHARE_MAX, NAMES_MAX, UnknownName
from streammetrics.words.names import isolated
from streammetrics.words.numbers import counted
from streammetrics.words.sentences import DataWarning

FOLDED_SHARE_MAX: Final = 0.01
"""The share of lists in the value `_other` of a segment, of all events, that has a sentence."""
LISTS_MIN: Final = 100
"""Lists that are needed before it is said that none of them is in an experiment."""
CONTROL_LISTS_MIN: Final = 50
"""Lists of an experiment that are needed before it is said that none of them has its control."""
USERS_MIN: Final = 1_000
"""Users of an experiment in a stream, all with one list, that have a sentence."""
NO_EXPERIMENT: Final = "No list names an experiment without settings, either: compare the settings with the events"

Arms = Mapping[tuple[str, str], int]
"""The lists by (experiment, variant)."""


def experiment_warnings(
    arms: Arms, lists: int, settings: Mapping[str, Any], *, ended: bool, lists_min: int = LISTS_MIN
) -> Iterator[DataWarning]:
    """Yield those about experiments that no list has, and about settings of experiments that fit no list.

    settings: as in a report. In a stream that goes on, an experiment with a start or an end may be over or yet to come, so it needs no
    list.

    >>> named = {"experiments": {"enabled": True, "named": {"ranker-v8": {}}}}
    >>> print(*experiment_warnings({("ranker-v7", "new"): 90}, 90, named, ended=True))
    None of 90 lists is in experiment ranker-v8, which has settings. Experiments of lists without settings: ranker-v7.
    >>> print(*experiment_warnings({}, 900, {"experiments": {"enabled": True}}, ended=False))
    None of 900 lists has an experiment, so no verdict can come. Yield "experiments": {"NAME": "VARIANT"} with each list, or set \
experiments.enabled = false if you need no verdicts.
    """
    rules = settings.get("experiments", {})
    named: Mapping[str, Any] = rules.get("named", {})
    sent = {experiment for experiment, _ in arms}
    missing = sorted(name for name in named.keys() - sent if ended or not any(map(named[name].get, ("start", "end"))))
    if missing:
        others = sorted(sent - named.keys())
        have = f"{'experiment' if len(missing) == 1 else 'experiments'} {', '.join(map(isolated, missing[:NAMES_MAX]))}"
        settings_of = "has" if len(missing) == 1 else "have"
        fix = f"Experiments of lists without settings: {', '.join(map(isolated, others[:NAMES_MAX]))}" if others else NO_EXPERIMENT
        text = f"None of {counted(lists, 'list')} is in {have}, which {settings_of} settings"
        yield DataWarning(f"experiments {missing[:NAMES_MAX]}", text, fix)
    elif not sent and lists >= lists_min and rules.get("enabled"):
        fix = 'yield "experiments": {"NAME": "VARIANT"} with each list'
        if "exposures" in settings:
            fix = "send an exposure of each user before the first list, with the user id of the lists"
        off = "or set experiments.enabled = false if you need no verdicts"
        text = f"None of {counted(lists, 'list')} has an experiment, so no verdict can come"
        yield DataWarning("no experiment", text, f"{fix}, {off}")
    yield from _control_warnings(arms, named)


def _control_warnings(arms: Arms, named: Mapping[str, Any]) -> Iterator[DataWarning]:
    """Yield one for each experiment whose configured control has no list, although other variants have many."""
    for name in sorted(named.keys() & {experiment for experiment, _ in arms}):
        control, lists = named[name].get("control"), {variant: count for (experiment, variant), count in arms.items() if experiment == name}
        total = sum(lists.values())
        if control is not None and control not in lists and INTERLEAVED not in lists and total >= CONTROL_LISTS_MIN:
            text = f"None of {counted(total, 'list')} of experiment {isolated(name)} has its control, {isolated(control)}"
            seen = ", ".join(map(isolated, sorted(lists)[:NAMES_MAX]))
            yield DataWarning(f"control {name}", text, f"set control in experiments.named to one of their variants: {seen}")


def null_warnings(arms: Arms, nulls: Iterable[UnknownName], named: Mapping[str, Any]) -> Iterator[DataWarning]:
    """Yield one for each experiment with null variants in which no two variants, or not its control, have lists.

    nulls: lists by the experiment whose variant is null.

    >>> print(*null_warnings({("ranker", "control"): 2_100}, [UnknownName("null_variant", "ranker", 2_000)], {}))
    2,000 lists have null in experiment ranker where 2,100 others have control, so they are in none of its variants. If null means a \
variant, yield its name.
    """
    for entry in nulls:
        lists = {variant: count for (name, variant), count in arms.items() if name == entry.name}
        control = named.get(str(entry.name), {}).get("control")
        if entry.name is None or (len(lists) > 1 and (control is None or control in lists)):
            continue
        where = f" where {sum(lists.values()):,} others have {', '.join(map(isolated, sorted(lists)[:NAMES_MAX]))}" if lists else ""
        many = f"{counted(entry.events, 'list')} {'has' if entry.events == 1 else 'have'} null in experiment {isolated(entry.name)}"
        they = "it is" if entry.events == 1 else "they are"
        yield DataWarning(
            f"null {entry.name}", f"{many}{where}, so {they} in none of its variants", "if null means a variant, yield its name"
        )


def one_list_warnings(of_what: str, users: int, lists: int, example: str = "") -> Iterator[DataWarning]:
    """Yield one if each of many users has exactly one list. Who calls says how many are many.

    >>> print(*one_list_warnings("experiment ranker", 12_000, 12_000))
    Each of the 12,000 users of experiment ranker has exactly one list. If user_id is the id of a session, a request or a list, yield \
that of the person.
    """
    if users == lists:
        text = f"Each of the {counted(users, 'user')} of {of_what} has exactly one list{example}"
        yield DataWarning("one list per user", text, "if user_id is the id of a session, a request or a list, yield that of the person")


def label_warnings(topics: Mapping[str, Mapping[str, int]]) -> Iterator[DataWarning]:
    """Yield one for each topic with many labels that are no text. `topics` are counts by topic.

    >>> print(*label_warnings({"shop": {"events": 9, "label_bad_type": 2, "label_empty": 4}}))
    2 labels of lists of shop are not used, because they are no text. Experiments and segments are objects of texts, such as \
"experiments": {"ranker-v7": "treatment"}.
    """
    for topic, counts in topics.items():
        if (wrong := counts.get("label_bad_type", 0)) > CONFLICT_SHARE_MAX * counts.get("events", 0):
            why = f"{'is' if wrong == 1 else 'are'} not used, because {'it is' if wrong == 1 else 'they are'} no text"
            fix = 'Experiments and segments are objects of texts, such as "experiments": {"ranker-v7": "treatment"}'
            yield DataWarning(f"labels {topic}", f"{counted(wrong, 'label')} of lists of {isolated(topic)} {why}", fix)


def folded_warnings(counts: Mapping[str, int], settings: Mapping[str, Any]) -> Iterator[DataWarning]:
    """Yield those about lists that lost a label because there are too many of its kind.

    >>> print(*folded_warnings({"events": 99, "too_many_groups": 20}, {"segments": ["query"], "groups_max": 10}))
    20 lists count under the segment value _other, because there are more than windows.groups_max = 10 groups. Keep only segments with \
few values in windows.segments, now query.
    """
    folded = counts.get("too_many_groups", 0)
    if folded > FOLDED_SHARE_MAX * counts.get("events", 0):
        text = (
            f"{counted(folded, 'list')} count under the segment value _other, because there are more than"
            f" windows.groups_max = {settings.get('groups_max')} groups"
        )
        segments = ", ".join(map(isolated, settings.get("segments", ())))
        yield DataWarning("folded", text, f"keep only segments with few values in windows.segments, now {segments}")
    if lost := counts.get("too_many_variants", 0):
        text = f"{counted(lost, 'list')} lost a variant, because there are more than experiments.variants_max or windows.groups_max allow"
        yield DataWarning("variants", text, "yield no ids of users or requests as experiments or variants")


def open_list_warnings(open_lists: Mapping[str, int]) -> Iterator[DataWarning]:
    """Say of experiments without any list that counts that the input ended too soon. open_lists: their lists.

    >>> print(*open_list_warnings({"ranker-v7": 5_120}))
    None of the 5,120 lists of experiment ranker-v7 counts: the input ended within join.attribution_ms after them, so feedback on them may \
not have come yet. Replay a longer log, or set a shorter join.attribution_ms.
    """
    for name, lists in open_lists.items():
        why = "the input ended within join.attribution_ms after them, so feedback on them may not have come yet"
        text = f"None of the {lists:,} lists of experiment {isolated(name)} counts: {why}"
        yield DataWarning(f"open lists {name}", text, "replay a longer log, or set a shorter join.attribution_ms")


def spelling_warnings(arms: Iterable[tuple[str, str]]) -> Iterator[DataWarning]:
    """Yield one for names that differ only in case or in spaces around them. `arms`: (experiment, variant), "" for none.

    >>> print(*spelling_warnings([("ranker", "new"), ("ranker", "New "), ("ranker", "old")]))
    Variants of ranker differ only in case or spaces, so they count as different ones: "New ", "new". Send one spelling.
    """
    experiments: dict[str, set[str]] = {}
    for experiment, variant in arms:
        experiments.setdefault(experiment, set()).add(variant)
    kinds = {"Experiments": experiments.keys() - {""}}
    kinds |= {f"Variants of {isolated(experiment)}": variants - {""} for experiment, variants in sorted(experiments.items())}
    for kind, names in kinds.items():
        spellings: dict[str, list[str]] = {}
        for name in sorted(names):
            spellings.setdefault(name.strip().casefold(), []).append(name)
        for spelling, alike in spellings.items():
            if len(alike) > 1:
                listed = ", ".join(f'"{isolated(name)}"' for name in alike[:NAMES_MAX])
                text = f"{kind} differ only in case or spaces, so they count as different ones: {listed}"
                yield DataWarning(f"spelling {kind} {spelling}", text, "send one spelling")


def user_warnings(report: ExperimentReport) -> Iterator[DataWarning]:
    """Yield one if the users of an experiment have one list each."""
    users, lists = (sum(counts) for counts in zip(*((variant.first_list_users, variant.lists) for variant in report.variants), strict=True))
    if users >= USERS_MIN and report.unit == "user":
        yield from one_list_warnings(f"experiment {isolated(report.experiment)}", users, lists)
