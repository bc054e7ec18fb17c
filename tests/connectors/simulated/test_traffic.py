"""The parameters of traffic are validated, all problems at once."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from streammetrics.connectors.simulated import Regression, Segment, Traffic, Variant
from streammetrics.errors import ConfigError
from streammetrics.events import TS_MAX
from tests.support.simulated_traffic import (
    with_quality,
)
from tests.support.tables import for_each


def test_interleaving_needs_two_rankers() -> None:
    with pytest.raises(ConfigError, match="interleaved = with the variants only: two variants"):
        replace(with_quality(1.0), interleaved=True)


@for_each(
    [
        ("users", 0),
        ("users", True),
        ("seed", -1),
        ("start_ms", TS_MAX + 1),
        ("impressions_per_second", 0.0),
        ("impressions_per_second", math.nan),
        ("impressions_per_second", math.inf),
        ("lists_per_visit", 0.5),
        ("list_gap_ms", -1),
        ("items_per_list", 0),
        ("items_per_list", 1_001),
        ("catalogue", 0),
        ("item_id_chars", 1),
        ("examination_power", -1.0),
        ("disorder_ms", -1),
        ("disorder_ms", 2.5),
        ("late_ms", -1),
        ("late_rate", 1.1),
        ("duplicate_rate", -0.1),
        ("malformed_rate", math.nan),
        ("feedback_without_id_rate", 2),
        ("experiment", ""),
        ("experiment", "\ud800"),
        ("impressions_topic", "no spaces"),
        ("feedback_topic", ""),
    ]
)
def test_a_value_out_of_range_is_rejected_by_name(case: tuple[str, object]) -> None:
    key, value = case
    with pytest.raises(ConfigError) as refused:
        Traffic(**{key: value})  # type: ignore[arg-type]
    assert [(problem.key, problem.value) for problem in refused.value.problems] == [(key, repr(value))]


@for_each(
    [
        ({"variants": (Variant("a", 0.6), Variant("b", 0.6))}, "variants"),
        ({"variants": (Variant("a", 0.5), Variant("a", 0.5))}, "variants"),
        ({"variants": (Variant("", 0.5),)}, "variants"),
        ({"variants": (Variant("a", 1.5),)}, "variants.a.share"),
        ({"variants": (Variant("a", 0.5, 0.0),)}, "variants.a.quality"),
        ({"variants": (Variant("a", 0.5, math.nan),)}, "variants.a.quality"),
        ({"regression": Regression("nobody")}, "regression.variant"),
        ({"regression": Regression("control", factor=0.0)}, "regression.factor"),
        ({"regression": Regression("control", after_ms=-1)}, "regression.after_ms"),
        ({"segments": (Segment("surface", ()),)}, "segments.surface"),
        ({"segments": (Segment("surface", ("home", "home")),)}, "segments.surface"),
        ({"segments": (Segment("a", ("x",)), Segment("a", ("y",)))}, "segments"),
        ({"segments": tuple(Segment(f"s{number}", ("x",)) for number in range(33))}, "segments"),
        ({"catalogue": 5}, "items_per_list"),
        ({"catalogue": 100_001}, "item_id_chars"),
    ]
)
def test_an_impossible_combination_is_rejected_by_name(case: tuple[dict[str, object], str]) -> None:
    traffic, key = case
    with pytest.raises(ConfigError) as refused:
        Traffic(**traffic)  # type: ignore[arg-type]
    assert [problem.key for problem in refused.value.problems] == [key]


def test_shares_that_add_up_to_one_by_rounding_are_accepted() -> None:
    variants = tuple(Variant(f"v{number}", 0.1) for number in range(10))
    assert Traffic(variants=variants).variants == variants


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        Traffic(users=0, late_rate=2.0, impressions_topic="", variants=(Variant("a", 2.0),), regression=Regression("b", -1.0))
    keys = {problem.key for problem in refused.value.problems}
    assert keys == {"users", "late_rate", "impressions_topic", "variants.a.share", "regression.variant", "regression.factor"}
