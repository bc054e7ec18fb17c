"""The lines of the examination curve on a terminal."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.cli.commands.replay import position_bias_lines
from tests.reports.position_bias_samples import position_bias_sample


def test_a_caution_stands_before_the_numbers() -> None:
    sample = position_bias_sample()
    title, *numbers = position_bias_lines(sample)
    assert [*position_bias_lines(replace(sample, caution="it may mislead"))] == [title, "  caution: it may mislead", *numbers]
