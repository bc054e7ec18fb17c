"""Tests of the scenarios of `demo`: what the report says after 200 seconds of each."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from streammetrics.cli.demo.demo import TIME_FACTOR, demo_traffic, load_demo
from streammetrics.cli.demo.scenarios import DEFAULT_SCENARIO, EXPERIMENT, SCENARIOS
from streammetrics.cli.main import command_named
from streammetrics.connectors.simulated import generate
from streammetrics.connectors.simulated.source import time_lapse
from streammetrics.experiments import ExperimentReport
from streammetrics.offline.replay.files import ReplayOutputs, replay

START_MS = 1_732_183_200_000
REAL_MS = 200_000
"""The history of the demo, and 50 seconds more."""


def after_200_seconds(name: str, folder: Path) -> ExperimentReport:
    """Return the experiment of a scenario since its start, with the seed and the rate that the demo has by default."""
    traffic = demo_traffic(SCENARIOS[name], START_MS, seed=1, rate=50)
    records = time_lapse(generate(traffic, until_ms=START_MS + REAL_MS * TIME_FACTOR), START_MS, TIME_FACTOR)
    events = folder / "events"
    events.write_bytes(b"".join(record.value + b"\n" for record in records))
    settings = load_demo(None, {}, {}, name).settings
    report, *_ = replay(settings, [str(events)], ReplayOutputs())
    (whole_run,) = (experiment for experiment in report.experiments if experiment.scope == "start")
    assert whole_run.experiment == EXPERIMENT
    return whole_run


@pytest.mark.parametrize(
    ("name", "word", "reason"),
    [
        ("regressed", "regressed", "treatment: 26.1 % lower ndcg@10 than control"),
        ("improved", "improved", "treatment: 14.4 % higher ndcg@10 than control"),
        ("flat", "inconclusive", "treatment: 0.79 % higher ndcg@10 than control so far"),
        ("broken-split", "invalid", "users are not split as configured (control 942, treatment 733;"),
    ],
)
def test_a_scenario_with_two_variants_gets_its_verdict(name: str, word: str, reason: str, tmp_path: Path) -> None:
    verdict = after_200_seconds(name, tmp_path).verdict
    assert verdict.word == word
    assert verdict.reason.startswith(reason)


def test_a_ramp_is_compared_with_lists_of_the_same_hours(tmp_path: Path) -> None:
    report = after_200_seconds("ramp", tmp_path)
    assert report.verdict.word == "regressed"
    assert report.health.troubles == ()


def test_six_variants_have_three_regressions_one_improvement_and_one_undecided(tmp_path: Path) -> None:
    report = after_200_seconds("six-variants", tmp_path)
    assert {variant.variant: variant.verdict.word if variant.verdict else None for variant in report.variants} == {
        "control": None,
        "gru4rec": "regressed",
        "item-knn": "regressed",
        "popularity": "regressed",
        "sasrec": "inconclusive",
        "two-tower": "improved",
    }


def test_the_terminal_compares_the_control_with_the_worst_variant() -> None:
    assert {name: scenario.treatment for name, scenario in SCENARIOS.items() if name != "six-variants"} == dict.fromkeys(
        ("regressed", "improved", "flat", "broken-split", "ramp"), "treatment"
    )
    assert SCENARIOS["six-variants"].treatment == "popularity"


def test_the_option_offers_all_scenarios() -> None:
    demo = command_named("demo")
    (option,) = (param for param in demo.params if param.name == "scenario")
    assert isinstance(option.type, click.Choice)
    assert [*option.type.choices] == [*SCENARIOS]
    assert option.default == DEFAULT_SCENARIO
