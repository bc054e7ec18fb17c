"""Verdict lines: the worst comes first, the others are counted, and sentences travel in parts; and which of them a report changes."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_report import worst_first
from streammetrics.reports.outlook import with_needed
from streammetrics.reports.result_records import verdict_record
from streammetrics.reports.verdict_lines import ChangedVerdicts, VerdictLine, verdict_lines
from streammetrics.words.sentences import DataWarning, Part
from tests.support.committed_state import START_MS
from tests.support.experiment_samples import experiment
from tests.support.gates import failing, report_at, waiting
from tests.support.page_story import SIX, many_experiments


def whole(report: ExperimentReport) -> VerdictLine:
    line, *_ = verdict_lines([with_needed(report)], 5)
    assert not line.variant
    return line


def text(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts)


def test_the_worst_variant_is_named_and_the_others_are_counted() -> None:
    whole_run = whole(experiment(SIX))
    assert (whole_run.verdict, whole_run.treatment, whole_run.metric, whole_run.k) == ("regressed", "popularity", "ndcg", 10)
    assert text(whole_run.parts).startswith("popularity: ")
    assert text(whole_run.parts).endswith("; of 5 treatments 3 regressed, 1 is inconclusive, 1 improved")
    assert text(whole_run.gate_parts) == "3 fail, 1 waits, 1 passes"


def test_the_lines_of_variants_follow_that_of_the_whole_with_the_same_numbers() -> None:
    report = replace(experiment(SIX), from_ms=3)
    first, *others = verdict_lines([report], 5)
    assert [line.about for line in (first, others[0])] == [(report.experiment, "start", name) for name in ("", "popularity")]
    words = [line.verdict for line in others]
    assert words == ["regressed", "regressed", "regressed", "inconclusive", "improved"]
    arms = {variant.variant: variant for variant in report.variants}
    for line in others:
        (measure,) = (measure for measure in arms[line.variant].measures if (measure.metric, measure.k) == (line.metric, line.k))
        assert (line.lift, line.lift_lower, line.lift_upper) == (measure.lift, measure.lift_lower, measure.lift_upper)
        assert (line.users, line.since_ms, line.up_to_ms) == (arms[line.variant].users, 3, 5)
        assert (line.gate, line.gate_reason) == (arms[line.variant].gate.word, arms[line.variant].gate.reason)
    assert first.users == sum(variant.users for variant in report.variants)
    assert (first.treatment, first.lift, first.lift_upper) == ("popularity", others[0].lift, others[0].lift_upper)


def test_what_undecided_treatments_need_is_in_their_line_and_in_that_of_the_whole() -> None:
    report = with_needed(experiment({"control": 0.5, "same": 0.5, "worse": 0.3}, users=400))
    lines = {line.variant: [text(parts) for parts in line.needed] for line in verdict_lines([report], 5)}
    assert lines == {"": lines["same"], "worse": [], "same": lines["same"]}
    assert lines["same"][0].startswith("same needs about ")


def test_a_treatment_that_is_not_compared_yet_has_a_line_of_the_gate() -> None:
    lines = verdict_lines([waiting()], 5)
    assert [(line.variant, line.verdict, line.gate, line.metric) for line in lines if line.variant] == [("treatment", None, "wait", None)]


def test_one_other_variant_is_named() -> None:
    whole_run = whole(experiment({"control": 0.5, "old": 0.3, "new": 0.7}))
    assert text(whole_run.parts).endswith("; new improved")


def test_others_with_one_verdict_are_counted_at_once() -> None:
    whole_run = whole(experiment({"control": 0.5, "a": 0.2, "b": 0.25, "c": 0.3}))
    assert text(whole_run.parts).endswith("; the 2 others regressed, too")


def test_treatments_without_a_verdict_are_counted_too() -> None:
    few = {"control": 2_000, "old": 2_000, "new": 2_000, "young": 60, "younger": 40}
    whole_run = whole(experiment({"control": 0.5, "old": 0.3, "new": 0.7, "young": 0.5, "younger": 0.5}, users=few, shares=few))
    assert text(whole_run.parts).endswith("; of 4 treatments 1 regressed, 1 improved, 2 have no verdict yet")
    assert text(whole_run.gate_parts) == "1 fails, 2 wait, 1 passes"


def test_the_gate_does_not_repeat_the_verdict() -> None:
    assert text(whole(experiment({"control": 0.5, "new": 0.3})).gate_parts) == "stop the rollout; the verdict stays"
    waits = whole(experiment({"control": 0.5, "new": 0.5}, users=400))
    assert text(waits.gate_parts).startswith("not yet certain that it is at most 5 % worse; it passes after about ")


def test_a_verdict_is_a_change_once_and_again_after_its_experiment_was_gone() -> None:
    changed = ChangedVerdicts()

    def words(*experiments: ExperimentReport) -> list[str | None]:
        report = replace(report_at(START_MS), experiments=experiments)
        return [line.verdict for line in changed.of(report) if not line.variant]

    assert words(waiting("ranker")) == ["inconclusive"]
    assert words(waiting("ranker")) == []
    assert words(failing("ranker")) == ["regressed"]
    assert words() == []
    assert words(failing("ranker")) == ["regressed"], "what has ended is forgotten, so that names do not pile up"


def warned(*warnings: DataWarning) -> ExperimentReport:
    return replace(experiment({"control": 0.5, "new": 0.4, "other": 0.5}), warnings=warnings)


OF_NEW, OF_ALL = DataWarning("lists per user", "new has 4 lists per user", variant="new"), DataWarning("same users", "they are", "salt")


def test_a_line_has_the_warnings_about_its_variant_and_about_all() -> None:
    lines = {line.variant: line.warnings for line in verdict_lines([warned(OF_NEW, OF_ALL)], 5)}
    assert lines == {"": (OF_NEW, OF_ALL), "new": (OF_NEW, OF_ALL), "other": (OF_ALL,)}


def test_the_results_topic_has_a_record_when_a_warning_appears_or_is_over() -> None:
    changed = ChangedVerdicts()

    def records(*warnings: DataWarning) -> list[list[str]]:
        lines = changed.of(replace(report_at(START_MS), experiments=(warned(*warnings),)))
        values = [msgspec.json.decode(verdict_record(line).value) for line in lines if not line.variant]
        return [[warning["text"] for warning in value["warnings"]] for value in values]

    assert records() == [[]]
    assert records(OF_NEW) == [["new has 4 lists per user"]]
    assert records(replace(OF_NEW, text="new has 5 lists per user")) == [], "counts that grow are no change"
    assert records() == [[]]


def test_advice_about_settings_is_a_part_of_its_own() -> None:
    report = experiment({"control": 0.5, "new": 0.5}, users={"control": 1_000, "new": 2_000})
    (advice,) = [part.text for part in report.verdict.parts if part.kind == "advice"]
    assert advice.startswith(" If the shares of ")
    assert text(report.verdict.parts) == report.verdict.reason


def test_every_name_of_a_variant_in_a_reason_is_a_part_of_its_own() -> None:
    for report in many_experiments():
        names = {variant.variant for variant in report.variants}
        sentences = [report.verdict.parts, *(variant.verdict.parts for variant in report.variants if variant.verdict)]
        sentences += [variant.gate.parts for variant in report.variants if variant.gate]
        sentences += [*report.health.note_parts, *(warning.parts for warning in report.warnings), *report.health.trouble_parts]
        for parts in sentences:
            in_text = {word.strip("(),.:;") for part in parts if part.kind == "text" for word in part.text.split()}
            assert not names & in_text


def test_experiments_are_sorted_by_verdict_and_size_and_each_day_follows_its_whole_time() -> None:
    small, large = (experiment({"control": 0.5, "new": chance}, name=name) for chance, name in ((0.4, "a"), (0.2, "b")))
    better = experiment({"control": 0.3, "new": 0.5}, name="c")
    days = [replace(experiment, scope="day") for experiment in (better, small, large)]
    order = [(experiment.experiment, experiment.scope) for experiment in worst_first([*days, better, small, large])]
    assert order == [(name, scope) for name in ("b", "a", "c") for scope in ("start", "day")]
