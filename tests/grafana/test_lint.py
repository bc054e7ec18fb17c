"""The rules of Grafana's dashboard linter as tests, because the program is not available everywhere.

Three rules are not followed. *template-instance-rule* and *target-instance-rule*: committed state is the same in all processes, and
panels of processes show each process. *template-job-rule*: one job is chosen at a time, because numbers of two deployments cannot
be aggregated.
"""

from __future__ import annotations

import re
from typing import Any

import promql_parser

from tests.grafana.reading import NAMES, PanelQuery, committed, every_query, filled, nodes, panels, parsed_form, queries, selectors
from tests.support.tables import for_each

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {"none", "short", "percentunit", "s", "bytes", "cps"}
"""The units in use."""
KINDS = {"stat", "table", "timeseries", "state-timeline"}
EXPECTED_VARIABLES = {
    "experiment": ["datasource", "job", "experiment", "variant", "metric", "k", "scope"],
    "ranking": ["datasource", "job", "experiment", "variant", "metric", "k", "window", "segments"],
    "pipeline": ["datasource", "job"],
}
each_dashboard = for_each(NAMES)
each_query = for_each(every_query())


def variables(name: str) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in committed(name)["templating"]["list"]}


def may_be_zero(divisor: Any) -> bool:
    """Whether an expression can be 0 because nothing happened for some time."""
    if isinstance(divisor, promql_parser.ParenExpr) and str(getattr(divisor.expr, "op", "")) == ">":
        return False
    inside = [*nodes(divisor)]
    gains = any(isinstance(node, promql_parser.Call) and node.func.name in ("rate", "increase") for node in inside)
    return gains or any(getattr(node, "offset", None) is not None for node in inside)


@each_query
def test_no_divisor_can_be_zero(query: PanelQuery) -> None:
    divided = (node for node in nodes(promql_parser.parse(parsed_form(query.expr))) if isinstance(node, promql_parser.BinaryExpr))
    assert not [node.prettify() for node in divided if str(node.op) == "/" and may_be_zero(node.rhs)], "would draw NaN or infinity"


@each_dashboard
def test_a_dashboard_has_a_title_and_a_description_and_is_read_only(name: str) -> None:
    dashboard = committed(name)
    assert dashboard["title"].startswith("streammetrics / ")
    assert dashboard["description"].endswith(".")
    assert dashboard["editable"] is False
    assert dashboard["timezone"] == "browser"
    assert dashboard["tags"] == ["streammetrics"]
    assert "id" not in dashboard, "an id of another Grafana"


@each_dashboard
def test_the_data_source_is_a_variable(name: str) -> None:
    chosen = variables(name)["datasource"]
    assert (chosen["type"], chosen["query"], chosen["label"]) == ("datasource", "prometheus", "Data source")
    for panel in panels(committed(name)):
        assert panel["datasource"] == SOURCE, panel["title"]
        assert all(target["datasource"] == SOURCE for target in panel["targets"])
    for annotation in committed(name)["annotations"]["list"]:
        assert annotation["datasource"] == SOURCE


@each_dashboard
def test_one_job_is_chosen_at_a_time(name: str) -> None:
    job = variables(name)["job"]
    assert (job["type"], job["label"], job["multi"], job["includeAll"]) == ("query", "Job", False, False)
    assert job["current"]["value"] == "streammetrics"


@each_dashboard
def test_variables_have_labels_and_refresh_with_the_time_range(name: str) -> None:
    names = variables(name)
    assert list(names) == EXPECTED_VARIABLES[name]
    for variable in names.values():
        assert variable["label"]
        assert variable["description"].endswith(".")
        if variable["type"] == "query":
            assert variable["datasource"] == SOURCE
            assert variable["refresh"] == 2
            inner = re.fullmatch(r"label_values\((?:(.+), )?(\w+)\)", variable["query"]["query"])
            assert inner is not None, variable["name"]
            if variable["name"] == "job":
                assert inner[1] == "streammetrics_build_info"
            else:
                (selector,) = selectors(parsed_form(inner[1]))
                assert 'job=~"$job"' in str(selector)


@each_dashboard
def test_a_variable_depends_only_on_earlier_ones(name: str) -> None:
    names_so_far: set[str] = set()
    for variable in committed(name)["templating"]["list"]:
        if variable["type"] == "query":
            filled(variable["query"]["query"], dict.fromkeys(names_so_far, "x"))  # KeyError otherwise
        names_so_far.add(variable["name"])


@each_dashboard
def test_every_variable_of_a_query_is_on_its_dashboard(name: str) -> None:
    choices = {**dict.fromkeys(variables(name), "x"), "__rate_interval": "1m", "__range": "1m", "__interval": "1m"}
    for query in queries(name):
        filled(query.expr, choices)
    used = " ".join(f"{query.expr} {query.panel['title']}" for query in queries(name))
    unused = [variable for variable in variables(name) if variable != "datasource" and not re.search(rf"\$\{{?{variable}\b", used)]
    assert not unused


@each_dashboard
def test_every_panel_has_a_title_a_description_and_a_text_for_no_data(name: str) -> None:
    titles = []
    for panel in panels(committed(name)):
        assert panel["type"] in KINDS
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert len(panel["description"]) > 30, panel["title"]
        titles.append(panel["title"])
        assert panel["targets"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["noValue"], panel["title"]
    assert len(set(titles)) == len(titles)


@each_dashboard
def test_every_panel_has_a_known_unit(name: str) -> None:
    for panel in panels(committed(name)):
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        if panel["type"] in ("timeseries", "stat", "state-timeline"):
            assert defaults["unit"] in UNITS, panel["title"]
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            assert all(
                override_property["value"] in UNITS for override_property in override["properties"] if override_property["id"] == "unit"
            )


@each_dashboard
def test_every_number_of_a_table_has_a_unit(name: str) -> None:
    for panel in panels(committed(name)):
        if panel["type"] != "table" or panel["fieldConfig"]["defaults"].get("unit"):
            continue
        headings = panel["transformations"][1]["options"]["renameByName"]
        numbers = {heading for key, heading in headings.items() if key.startswith("Value")}
        for override in panel["fieldConfig"]["overrides"]:
            ids = {override_property["id"] for override_property in override["properties"]}
            matcher = override["matcher"]
            if ids & {"unit", "mappings"}:
                pattern = matcher["options"].strip("/") if matcher["id"] == "byRegexp" else re.escape(matcher["options"]) + "$"
                numbers -= {heading for heading in numbers if re.search(pattern, heading)}
        assert not numbers, panel["title"]


@each_dashboard
def test_thresholds_are_in_ascending_order(name: str) -> None:
    for panel in panels(committed(name)):
        values = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert values[0] is None, panel["title"]
        assert values[1:] == sorted(values[1:]), panel["title"]


@each_dashboard
def test_an_override_matches_a_query_or_a_series(name: str) -> None:
    for panel in panels(committed(name)):
        letters = [target["refId"] for target in panel.get("targets", ())]
        legends = [target.get("legendFormat", "") for target in panel.get("targets", ())]
        columns = [heading for change in panel.get("transformations", ()) for heading in change["options"].get("renameByName", {}).values()]
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            matcher = override["matcher"]
            if matcher["id"] == "byFrameRefID":
                assert matcher["options"] in letters
            elif matcher["id"] == "byName":
                assert matcher["options"] in [*legends, *columns], panel["title"]
            else:
                chosen = variables(name).get(panel.get("repeat") or "", {}).get("options", ())
                filled_in = [legend.replace(f"${panel['repeat']}", option["value"]) for legend in legends for option in chosen]
                assert any(re.search(matcher["options"].strip("/"), column) for column in [*columns, *filled_in]), panel["title"]


@each_dashboard
def test_what_many_deployments_do_not_have_is_in_a_folded_row(name: str) -> None:
    """An open row of empty panels looks like a fault."""
    optional = ("No process has ", "This experiment has no ", "No change waits")
    opened = [panel for panel in committed(name)["panels"] if panel["type"] != "row"]
    empty = [panel["title"] for panel in opened if panel.get("fieldConfig", {}).get("defaults", {}).get("noValue", "").startswith(optional)]
    assert not empty


@each_query
def test_a_query_is_valid_promql_for_the_job(query: PanelQuery) -> None:
    names = selectors(parsed_form(query.expr))
    assert names
    for selector in names:
        assert 'job=~"$job"' in str(selector), selector


@each_query
def test_counters_are_queried_as_rates_over_the_interval_of_grafana(query: PanelQuery) -> None:
    gained, named = [], []
    for node in nodes(promql_parser.parse(parsed_form(query.expr))):
        if isinstance(node, promql_parser.Call) and node.func.name in ("rate", "increase"):
            (matrix,) = node.args
            gained.append(matrix.vector_selector.name)
            over_range = node.func.name == "increase" and query.panel["title"].endswith("over the selected time range")
            assert str(matrix.range) == ("0:04:12" if over_range else "0:04:11")
        elif isinstance(node, promql_parser.VectorSelector):
            named.append(node.name)
    counted = [name for name in named if name.endswith(("_total", "_bucket", "_sum", "_count"))]
    assert sorted(counted) == sorted(gained)


@each_query
def test_curves_have_legends_and_numbers_use_instant_queries(query: PanelQuery) -> None:
    kind, target = query.panel["type"], query.target
    assert target["instant"] is (kind in ("stat", "table"))
    assert target["range"] is not target["instant"]
    assert target["format"] == ("table" if kind == "table" else "time_series")
    assert kind == "table" or target["legendFormat"]


@each_dashboard
def test_alerts_and_versions_are_annotated(name: str) -> None:
    alerts, versions = committed(name)["annotations"]["list"]
    (firing,) = selectors(alerts["expr"])
    assert firing.name == "ALERTS"
    assert 'alertstate="firing"' in str(firing)
    assert {selector.name for selector in selectors(parsed_form(versions["expr"]))} == {"streammetrics_build_info"}
    assert alerts["enable"]
    assert versions["enable"]


@each_dashboard
def test_a_link_leads_to_the_other_dashboards_with_time_range_and_choices(name: str) -> None:
    (link,) = committed(name)["links"]
    assert (link["type"], link["tags"], link["keepTime"], link["includeVars"]) == ("dashboards", ["streammetrics"], True, True)


def test_links_in_tables_use_variables_of_their_dashboard() -> None:
    links = [
        link["url"]
        for name in NAMES
        for panel in panels(committed(name))
        for override in panel.get("fieldConfig", {}).get("overrides", ())
        for override_property in override["properties"]
        if override_property["id"] == "links"
        for link in override_property["value"]
    ]
    assert links
    for url in links:
        match = re.match(r"/d/streammetrics-(\w+)\?", url)
        assert match is not None
        assert set(re.findall(r"var-(\w+)=", url)) <= set(EXPECTED_VARIABLES[match[1]])
        assert "${__url_time_range}" in url
