"""The dashboards query the series of the table as they are meant, and their words are those of the product."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser

from streammetrics.experiments.gate import GATE_CODES
from streammetrics.experiments.policy import Policy
from streammetrics.exporters.prometheus.series import SERIES, TABLE
from streammetrics.metrics.records import METRICS
from tests.grafana.reading import (
    LABELS,
    NAMES,
    PanelQuery,
    children,
    committed,
    every_query,
    panels,
    parsed_form,
    selectors,
    value_mappings,
)
from tests.support.tables import for_each

NAME = re.compile(r"\b(streammetrics_\w+|process_\w+)")
each_query = for_each(every_query())


def text_of(name: str) -> str:
    return json.dumps(committed(name), ensure_ascii=False)


@each_query
def test_a_query_names_series_of_the_table_and_labels_that_they_have(query: PanelQuery) -> None:
    for selector in selectors(parsed_form(query.expr)):
        assert selector.name in LABELS
        assert {matcher.name for matcher in selector.matchers.matchers} - {"job", "instance"} <= {*LABELS[selector.name]}


@each_query
def test_committed_state_is_not_added_up_over_processes(query: PanelQuery) -> None:
    """Every process that publishes shows the same."""
    for how, name in innermost_aggregations(promql_parser.parse(parsed_form(query.expr))):
        if name in SERIES and SERIES[name].origin == "state":
            assert how in ("max", "group"), f"{how} of {name}"


def innermost_aggregations(node: Any, how: str = "") -> Iterator[tuple[str, str]]:
    """Yield each series with the aggregation that is nearest around it."""
    if isinstance(node, promql_parser.VectorSelector):
        yield how, str(node.name)
    if isinstance(node, promql_parser.AggregateExpr):
        how = str(node.op)
    for inside in children(node):
        yield from innermost_aggregations(inside, how)


def test_every_series_of_the_table_is_on_a_dashboard() -> None:
    forms = [parsed_form(query.expr) for query in every_query()]
    forms += [parsed_form(annotation["expr"]) for annotation in committed("pipeline")["annotations"]["list"]]
    forms += [parsed_form(query.expr, metric=name) for query in every_query() if "${metric}" in query.expr for name in METRICS]
    series_names = {name.removesuffix("_bucket") for form in forms for name in NAME.findall(form)}
    assert {series.name for series in TABLE} <= series_names


def test_texts_have_the_defaults_of_the_policy() -> None:
    policy = Policy()
    for words in (
        f"until every variant has enough users (by default {policy.min_users})",
        f"{100 * (1 - policy.alpha):g} % confidence by default",
        f"by default {100 * policy.gate_margin:g} %",
        f"Below {policy.sample_ratio_alpha:g} the experiment is invalid",
        f"{100 * policy.unmatched_share_max:g} % over the time of the experiment",
        f"Below {policy.effective_users_min:g} of them a few users dominate",
    ):
        assert words in text_of("experiment")


def test_values_of_the_gate_have_its_words() -> None:
    gates = [options for options in value_mappings(committed("experiment")) if any(text["text"] == "pass" for text in options.values())]
    assert gates
    for options in gates:
        assert {text["text"]: int(code) for code, text in options.items()} == GATE_CODES


def test_dashboards_keep_their_uids() -> None:
    assert {name: committed(name)["uid"] for name in NAMES} == {name: f"streammetrics-{name}" for name in NAMES}


def test_ids_of_panels_and_letters_of_queries_are_unique() -> None:
    for name in NAMES:
        ids = [panel["id"] for panel in panels(committed(name), rows=True)]
        assert len(set(ids)) == len(ids)
        assert all(isinstance(panel_id, int) and panel_id > 0 for panel_id in ids)
        for panel in panels(committed(name)):
            letters = [target["refId"] for target in panel.get("targets", ())]
            assert letters == sorted(set(letters)), panel["title"]


def test_panels_do_not_overlap_or_leave_the_grid() -> None:
    for name in NAMES:
        dashboard = committed(name)
        inside = [[row, *row.get("panels", ())] for row in dashboard["panels"] if row["type"] == "row" and row["collapsed"]]
        for grid in (dashboard["panels"], *inside):
            taken: set[tuple[int, int]] = set()
            for place in (panel["gridPos"] for panel in grid):
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                assert not cells & taken
                assert max(x for x, _ in cells) < 24
                taken |= cells
