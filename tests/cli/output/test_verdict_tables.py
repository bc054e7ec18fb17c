"""The lines of a verdict on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text

from streammetrics.cli.output.report_reader import read_report
from streammetrics.cli.output.verdict_tables import NEEDED_MAX, verdict_lines, verdict_summary
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.outlook import NeededUsers
from tests.support.experiment_samples import experiment
from tests.support.report_page import plain


def of(treatments: int) -> ExperimentReport:
    """An experiment in which each treatment needs more users."""
    experiment_report = experiment({"control": 0.5, **{f"v{number}": 0.5 for number in range(treatments)}}, users=150)
    needed = (NeededUsers("regressed", "ndcg", 10, -0.1, 1_200, 300, 4_200),)
    return replace(
        experiment_report,
        variants=tuple(
            replace(variant, needed=needed) if variant.role == "treatment" else variant for variant in experiment_report.variants
        ),
    )


def lines_about_users(lines: list[str]) -> list[str]:
    return [line for line in lines if "more users" in line]


@pytest.mark.parametrize(("treatments", "rest"), [(5, None), (6, "1 more variant also needs"), (9, "4 more variants also need")])
def test_a_few_variants_say_what_they_need_and_the_others_are_counted(treatments: int, rest: str | None) -> None:
    lines = of(treatments)
    summary = lines_about_users([line.plain for line in verdict_summary([lines])])
    assert len(summary) == NEEDED_MAX + (rest is not None)
    assert all(f"v{number} needs about " in summary[number] for number in range(NEEDED_MAX))
    assert rest is None or summary[-1] == f"{'':<10}{rest} more users: streammetrics report --all"
    whole = read_report(plain(lines), "here")
    for all_measures, count in ((False, len(summary)), (True, treatments)):
        printed_lines = [line.plain for line in verdict_lines(whole, all_measures) if isinstance(line, Text)]
        assert len(lines_about_users(printed_lines)) == count


def test_an_experiment_without_a_comparison_has_no_table_of_measures() -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    for line in verdict_lines(read_report(plain(experiment({"control": 0.5})), "x"), all_measures=False):
        console.print(line)
    text = console.export_text()
    assert "effective users" in text
    assert " measure " not in text
