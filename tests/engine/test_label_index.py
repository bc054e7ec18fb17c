"""Tests of the label index: what is stored has every list that was noted."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.engine.label_index import LabelIndex, LabelSetEntry
from streammetrics.engine.rules import EngineRules
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.events.event_time import NEVER
from streammetrics.events.grades import parse_grades
from streammetrics.events.model import Labels
from streammetrics.windows.panes import Group

RULES = EngineRules(
    topics=("events",), grades=parse_grades("click=1"), experiments=ExperimentRules(idle_ms=10), retention_ms=20, groups_max=2
)
RANKER: Labels = (("ranker", "a"),)
OTHER: Labels = (("ranker", "b"),)


def index_of(rules: EngineRules, forgotten: list[Group]) -> LabelIndex:
    return LabelIndex(rules, ExperimentRuns(0 if rules.experiments is None else rules.experiments.idle_ms), forgotten.append)


def newest(labels: LabelIndex) -> dict[Group, int]:
    return {group: ts for group, ts, _ in labels.stored().groups}


def spans(labels: LabelIndex) -> list[tuple[int, int]]:
    return [(first, last) for _, _, first, last, *_ in labels.stored().runs]


def note(labels: LabelIndex, experiments: Labels, *times: int, watermark: int = NEVER) -> LabelSetEntry:
    """Note lists of one label set."""
    for ts in times:
        entry = labels.entries.get((experiments, ()))
        if entry is None:
            entry = labels.fit(experiments, (), ts, watermark).entry
        if not entry.known_from <= ts <= entry.known_until:
            labels.extend_runs(entry, ts)
        labels.note(entry, ts)
    return entry


def test_groups_and_runs_include_every_noted_list() -> None:
    labels = index_of(RULES, [])
    note(labels, RANKER, 5, 9, 2)
    assert newest(labels) == {Group(): 9, Group("ranker", "a"): 9}
    assert spans(labels) == [(2, 9)]
    note(labels, RANKER, 12)
    assert spans(labels) == [(2, 12)]
    assert labels.stored().groups == [(Group(), 12, NEVER), (Group("ranker", "a"), 12, NEVER)]


def test_groups_with_recent_lists_are_not_forgotten_when_others_need_room() -> None:
    forgotten: list[Group] = []
    labels = index_of(RULES, forgotten)
    note(labels, RANKER, 0, 100)
    assert labels.fit(OTHER, (), 110, watermark=110).experiments == ()
    assert forgotten == []
    note(labels, (), 130)
    assert labels.fit(OTHER, (), 130, watermark=130).experiments == OTHER
    assert forgotten == [Group("ranker", "a")]


def test_a_segment_beyond_the_limit_is_folded_for_the_variants_without_room() -> None:
    labels = index_of(replace(RULES, segments=("page",), groups_max=5), [])
    first = labels.fit(RANKER, (("page", "home"),), 0, NEVER)
    assert len(newest(labels)) == 4
    fits = labels.fit((), (("page", "cart"),), 0, NEVER)
    assert (fits.segments, fits.entry.groups[1].value) == ((("page", "cart"),), "cart")
    partly = labels.fit(RANKER, (("page", "cart"),), 0, NEVER)
    assert partly.segments == (("=page", "1"), ("page", "cart"))
    assert partly.entry.groups == (Group(), Group("", "", "page", "cart"), Group("ranker", "a"), Group("ranker", "a", "page", "_other"))
    wholly = labels.fit(RANKER, (("page", "search"),), 0, NEVER)
    assert wholly.segments == (("page", "_other"),)
    assert labels.fit(RANKER, (("page", "home"),), 0, NEVER) == first


def test_a_late_group_is_forgotten_as_early_as_without_an_earlier_search() -> None:
    forgotten: list[Group] = []
    labels = index_of(RULES, forgotten)
    note(labels, (), 50)
    labels.fit((*RANKER, *OTHER), (), 45, watermark=60)  # searches for groups to forget
    note(labels, RANKER, 45, watermark=60)
    labels.fit(OTHER, (), 67, watermark=67)
    assert forgotten == [Group("ranker", "a")]


def test_without_experiments_label_sets_have_groups_and_no_runs() -> None:
    labels = index_of(replace(RULES, experiments=None), [])
    note(labels, RANKER, 5)
    assert newest(labels) == {Group(): 5, Group("ranker", "a"): 5}
    assert spans(labels) == []
