"""Headlines: the worst comes first, the others are counted, and sentences travel in parts."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.needed import with_needed
from streammetrics.experiments.words import Part
from streammetrics.experiments.worst_first import worst_first
from streammetrics.reports.headlines import Headline, headlines
from tests.experiments.samples import experiment
from tests.support.page_story import SIX, many_experiments


def headline(report: ExperimentReport) -> Headline:
    (found,) = headlines([with_needed(report)])
    return found


def text(parts: tuple[Part, ...]) -> str:
    return "".join(each.text for each in parts)


def test_the_worst_variant_is_named_and_the_others_are_counted() -> None:
    found = headline(experiment(SIX))
    assert (found.verdict, found.variant, found.metric, found.k) == ("regressed", "popularity", "ndcg", 10)
    assert text(found.reason).startswith("popularity: ")
    assert text(found.reason).endswith("; of 4 others 2 regressed, 1 is inconclusive, 1 improved")
    assert text(found.brief) == "popularity ndcg@10; of 4 others 2 regressed, 1 is inconclusive, 1 improved"
    assert text(found.gate_says) == "3 fail, 1 waits, 1 passes"


def test_one_other_variant_is_named() -> None:
    found = headline(experiment({"control": 0.5, "old": 0.3, "new": 0.7}))
    assert text(found.reason).endswith("; new improved")


def test_others_with_one_verdict_are_counted_at_once() -> None:
    found = headline(experiment({"control": 0.5, "a": 0.2, "b": 0.25, "c": 0.3}))
    assert text(found.reason).endswith("; the 2 others regressed, too")


def test_the_gate_does_not_repeat_the_verdict() -> None:
    assert text(headline(experiment({"control": 0.5, "new": 0.3})).gate_says) == "stop the rollout"
    waits = headline(experiment({"control": 0.5, "new": 0.5}, users=400))
    assert text(waits.gate_says).startswith("not yet certain that it is at most 5 % worse; it passes after about ")


def test_advice_about_settings_is_a_part_of_its_own() -> None:
    report = experiment({"control": 0.5, "new": 0.5}, users={"control": 1_000, "new": 2_000})
    (found,) = [each.text for each in report.verdict.parts if each.kind == "advice"]
    assert found.startswith(" If this split is intended, set under [experiments.named.")
    assert text(report.verdict.parts) == report.verdict.reason


def test_every_name_of_a_variant_in_a_reason_is_a_part_of_its_own() -> None:
    for report in many_experiments():
        names = {each.variant for each in report.variants}
        sentences = [report.verdict.parts, *(each.verdict.parts for each in report.variants if each.verdict)]
        sentences += [each.gate.parts for each in report.variants if each.gate]
        sentences += [*report.health.note_parts, *report.health.trouble_parts]
        for parts in sentences:
            in_text = {word.strip("(),.:;") for each in parts if each.kind == "text" for word in each.text.split()}
            assert not names & in_text


def test_experiments_are_sorted_by_verdict_and_size_and_each_day_follows_its_whole_time() -> None:
    small, large = (experiment({"control": 0.5, "new": chance}, name=name) for chance, name in ((0.4, "a"), (0.2, "b")))
    better = experiment({"control": 0.3, "new": 0.5}, name="c")
    days = [replace(each, scope="day") for each in (better, small, large)]
    found = [(each.experiment, each.scope) for each in worst_first([*days, better, small, large])]
    assert found == [(name, scope) for name in ("b", "a", "c") for scope in ("start", "day")]
