"""Each metric has one record: its bound is that of its values, and the other metrics that it names exist."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from streammetrics.config.metrics import AssessmentSettings, EngagementSettings
from streammetrics.metrics import ALL_METRIC_NAMES, Metric, Scorer, Spec
from streammetrics.metrics.assessment import AssessmentLayout, CatalogueItem, ItemCatalogue
from streammetrics.metrics.engagement import EngagementFacts, EngagementLayout
from streammetrics.metrics.names import ASSESSMENT_NAMES, CUTOFFS, ENGAGEMENT_NAMES
from streammetrics.metrics.records import METRICS
from tests.metrics.lists import WHOLE, at_cutoffs, lists_of
from tests.support.tables import for_each

JUDGED = Scorer(["r_precision", *at_cutoffs(ALL_METRIC_NAMES, (5,))])
CATALOGUE = ItemCatalogue({"a": CatalogueItem(("x",), 3, 1), "b": CatalogueItem(("y",), 1, 1)}, users=1_000)
TWO_LISTS = EngagementFacts(*(np.array(pair) for pair in ([3, 3], [1, 0], [3, 2], [4_000, 3_000], [2, 2], [5 << 16] * 2, [1, 0], [1, 0])))
"""Two lists of one session, each clicked after some seconds at a later rank, with two purchases."""


def high_values() -> dict[str, float]:
    """Return a value of each metric that a list can have: as high as can be, or above 1 if there is no bound."""
    engagement = EngagementLayout(Metric(name, 5 if CUTOFFS[name] == "required" else 0) for name in ENGAGEMENT_NAMES)
    assessment = AssessmentLayout(
        (Metric(name, 0 if CUTOFFS[name] == "none" else 2) for name in ASSESSMENT_NAMES), CATALOGUE, ("from", "top")
    )
    ratios = [
        *engagement.ratios(engagement.rows(TWO_LISTS).sum(axis=0).tolist(), 2),
        *assessment.ratios(assessment.row(("a", "b"), [("from", "top")]), 1),
    ]
    values = {**JUDGED.values(JUDGED.score_list([4] * 5)), **{name: top / bottom for name, top, bottom in ratios}}
    return {name.partition("@")[0]: value for name, value in values.items()}


VALUES = high_values()


def test_every_metric_has_a_value() -> None:
    assert sorted(VALUES) == sorted(name for name, record in METRICS.items() if record.kind not in ("users", "bucket"))


@for_each(VALUES)
def test_only_metrics_without_a_bound_have_values_above_1(name: str) -> None:
    assert (VALUES[name] > 1) is (METRICS[name].ceiling is None)


@given(lists_of(WHOLE.filter(lambda grade: grade <= 4)))
def test_no_list_has_a_value_above_the_bound(grades: list[float]) -> None:
    values = JUDGED.values(JUDGED.score_list(grades))
    assert [name for name, value in values.items() if value > (METRICS[name.partition("@")[0]].ceiling or np.inf)] == []


def test_metrics_that_a_record_names_have_records() -> None:
    names = {name for record in METRICS.values() for name in (record.plain_gain, record.of_users) if name}
    assert names == {"dcg", "dcg_exp", "user_hit_rate"}
    assert names <= METRICS.keys()


@for_each([name for name, record in METRICS.items() if record.settings])
def test_settings_that_a_record_names_exist(name: str) -> None:
    sections = {
        "judged": Spec.__dataclass_fields__,
        "engagement": EngagementSettings.model_fields,
        "assessment": AssessmentSettings.model_fields,
    }
    assert set(METRICS[name].settings) <= sections[METRICS[name].kind].keys()


def test_places_by_rank_are_different() -> None:
    places = [record.rank_place for record in METRICS.values() if record.rank_place]
    assert sorted(places) == [*range(1, len(places) + 1)]
