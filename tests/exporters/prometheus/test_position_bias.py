"""The series of the examination curve: what has an estimate has one, and folded variants are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.exporters.prometheus.labels import LabelNames
from streammetrics.exporters.prometheus.position_bias import position_bias_groups, position_bias_rows
from streammetrics.exporters.prometheus.series import SERIES
from streammetrics.reports.position_bias import PositionBias
from tests.reports.position_bias_samples import position_bias_sample


def rows_of(found: PositionBias | None, values_max: int = 100) -> tuple[dict[tuple[str, tuple[str, ...]], float], int]:
    groups = LabelNames(values_max).assign(set(position_bias_groups(found)), set())
    rows, left_out = position_bias_rows(found, groups)
    return {(name.removeprefix("streammetrics_"), labels): value for name, labels, value in rows}, left_out


def test_ranks_and_cut_offs_beyond_the_curve_have_no_series() -> None:
    rows, left_out = rows_of(position_bias_sample())
    assert left_out == 0
    assert {labels for name, labels in rows if name.startswith("examination") and labels} == {(str(rank),) for rank in range(1, 11)}
    assert rows["examination", ("2",)] == pytest.approx(0.5)
    assert rows["examination_lower", ("2",)] < 0.5 < rows["examination_upper", ("2",)]
    assert rows["examination_sampled_ratio", ()] == 0.125
    assert (rows["examination_items", ()], rows["examination_shared_items", ()]) == (2, 1)
    assert rows["corrected_dcg", ("ranker", "control", "10")] == 0.75
    assert rows["uncorrected_dcg", ("ranker", "control", "11")] == 0.5
    assert ("corrected_dcg", ("ranker", "control", "11")) not in rows


def test_without_a_curve_there_are_no_series() -> None:
    assert rows_of(None) == ({}, 0)
    assert rows_of(PositionBias(None, withheld="tasks_apart")) == ({}, 0)


def test_folded_variants_are_left_out_and_counted() -> None:
    sample = position_bias_sample()
    many = tuple(replace(sample.variants[0], variant=f"v{at}") for at in range(5))
    rows, left_out = rows_of(replace(sample, variants=many), values_max=3)
    shown = {labels for name, labels in rows if name.endswith("_dcg")}
    assert left_out > 0
    assert left_out + len([name for name, _ in rows if name.endswith("_dcg")]) == 5 * 3
    assert all(labels[1] != "_other" for labels in shown)


def test_the_help_says_that_they_are_estimates() -> None:
    for name in ("examination", "corrected_dcg"):
        assert SERIES[f"streammetrics_{name}"].help.startswith("Estimate: ")
    for bound in ("lower", "upper"):
        assert SERIES[f"streammetrics_examination_{bound}"].help.endswith(" Also an estimate.")
