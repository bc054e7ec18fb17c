"""What a reader chooses at the top of a dashboard, and what is marked on its curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grafana.house import BLUE, RED, SOURCE
from grafana.queries import EXPERIMENT, METRIC, selector
from grafana.sdk import dashboard
from streammetrics.metrics.names import METRIC_NAMES

ALERTS_OF_OURS = "Streammetrics.+"
"""What the names of our alerts look like."""
WHOLE_TRAFFIC = "()"
"""A pattern that matches the empty text alone: the groups that are not cut by a segment."""

Variable = dashboard.VariableModel


def datasource() -> Variable:
    """Which Prometheus."""
    return _variable(
        name="datasource",
        label="Data source",
        type_val=dashboard.VariableType.DATASOURCE,
        query="prometheus",
        current=dashboard.VariableOption(text="default", value="default"),
        refresh=dashboard.VariableRefresh.ON_DASHBOARD_LOAD,
        description="The Prometheus that scrapes streammetrics.",
    )


def job() -> Variable:
    """Which deployment. One at a time: the numbers of two are two truths, and an aggregation over both would be neither."""
    return _asked(
        "job",
        "Job",
        "label_values(streammetrics_build_info, job)",
        "The scrape job: all processes of one deployment.",
        current="streammetrics",
    )


def experiment() -> Variable:
    """Which experiment, of those whose variants have lists."""
    asked = f"label_values({selector('streammetrics_variant_info')}, experiment)"
    return _asked("experiment", "Experiment", asked, "The experiment whose variants are compared.")


def variant(role: str = "") -> Variable:
    """Which variants of it, of a role or of any."""
    matchers = {"experiment": EXPERIMENT, **({"role": f'="{role}"'} if role else {})}
    asked = f"label_values({selector('streammetrics_variant_info', **matchers)}, variant)"
    which = "The variants that are compared with the control." if role else "The variants to show; all of them, or some."
    # Without experiments all traffic, which has no variant, is all that there is to show; what is said of a whole experiment is no variant.
    return _asked("variant", "Variant", asked, which, many=True, all_value=".+" if role else ".*")


def measured_metric() -> Variable:
    """Which measure of an experiment, that of users with a hit included."""
    asked = f"label_values({selector('streammetrics_experiment_mean', experiment=EXPERIMENT)}, metric)"
    return _asked("metric", "Metric", asked, "The measure of the curves; the verdict table has all of them.", current="ndcg")


def measured_k() -> Variable:
    """Which cut-off of that measure."""
    asked = f"label_values({selector('streammetrics_experiment_mean', experiment=EXPERIMENT, metric=METRIC)}, k)"
    return _asked("k", "Cut-off", asked, "The first k items of a list.", current="10", numbers=True)


def scope() -> Variable:
    """Since when an experiment is read."""
    meanings = {"since its start": "start", "today (UTC)": "day"}
    return _chosen("scope", "Span", meanings, "All of the experiment, or its present UTC day, which good days before do not dilute.")


def metric() -> Variable:
    """Which metric of ranking quality; a name of a metric is a part of its series' name."""
    return _chosen("metric", "Metric", {name: name for name in METRIC_NAMES}, "The metric of the panels above; below are all of them.")


def cutoffs() -> Variable:
    """Which cut-offs."""
    asked = 'label_values({__name__=~"streammetrics_live_.+", job=~"$job"}, k)'
    return _asked("k", "Cut-off", asked, "The first k items of a list.", current="10", numbers=True, many=True)


def window() -> Variable:
    """Which windows."""
    asked = f"label_values({selector('streammetrics_window_lists')}, window)"
    return _asked("window", "Window", asked, "The span of event time that a number covers.", many=True)


def segments() -> Variable:
    """Which segment: one, or the whole traffic."""
    asked = f"label_values({selector('streammetrics_window_lists')}, segments)"
    return _asked("segments", "Segment", asked, "One segment value, or All for the whole traffic.", all_value=WHOLE_TRAFFIC)


def marks() -> list[dashboard.AnnotationQuery]:
    """Alerts that fire, and versions that start."""
    # An alert on what is absent has no job; those of other jobs are not of this dashboard.
    alerts = f'ALERTS{{alertstate="firing", alertname=~"{ALERTS_OF_OURS}", job=~"$job|"}}'
    known = f"group by (version) ({selector('streammetrics_build_info')})"
    before = f"group by (version) ({selector('streammetrics_build_info', offset='5m')})"
    return [
        _annotation("Alerts", RED, alerts, "{{alertname}}", "{{severity}} {{experiment}} {{variant}}", "alertname,severity"),
        _annotation("Versions", BLUE, f"{known} unless {before}", "version {{version}}", "processes of this version start", "version"),
    ]


def _annotation(name: str, color: str, expr: str, title: str, words: str, tags: str) -> dashboard.AnnotationQuery:
    annotation = dashboard.AnnotationQuery(
        name=name,
        datasource=SOURCE,
        enable=True,
        hide=False,
        icon_color=color,
        expr=expr,
        title_format=title,
        text_format=words,
        tag_keys=tags,
        step="60s",
    )
    annotation.placement = annotation.built_in = None  # type: ignore[assignment]  # its switch in sight; none of Grafana's own
    return annotation


def _variable(**fields: Any) -> Variable:
    """A variable without what the SDK says of intervals, which ours are none of."""
    made = Variable(**fields)
    made.auto = made.auto_min = made.auto_count = None
    return made


def _asked(
    name: str,
    label: str,
    asked: str,
    description: str,
    *,
    current: str = "",
    many: bool = False,
    all_value: str = "",
    numbers: bool = False,
) -> Variable:
    """A variable whose values Prometheus knows; asked anew when the time range changes."""
    chosen: str | list[str] = [current] if many else current
    if all_value and not current:
        chosen = ["$__all"] if many else "$__all"
    return _variable(
        name=name,
        label=label,
        description=description,
        type_val=dashboard.VariableType.QUERY,
        datasource=SOURCE,
        query={"query": asked, "refId": f"variable-{name}", "qryType": 1},
        refresh=dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED,
        sort=dashboard.VariableSort.NUMERICAL_ASC if numbers else dashboard.VariableSort.ALPHABETICAL_ASC,
        multi=many,
        include_all=bool(all_value),
        all_value=all_value or None,
        current=dashboard.VariableOption(text=_shown(chosen), value=chosen) if current or all_value else None,
    )


def _shown(chosen: str | list[str]) -> str | list[str]:
    if isinstance(chosen, list):
        return ["All" if value == "$__all" else value for value in chosen]
    return "All" if chosen == "$__all" else chosen


def _chosen(name: str, label: str, meanings: Mapping[str, str], description: str) -> Variable:
    """A variable with a fixed list of values by the words that are shown; the first is chosen."""
    options = [dashboard.VariableOption(text=shown, value=value, selected=at == 0) for at, (shown, value) in enumerate(meanings.items())]
    return _variable(
        name=name,
        label=label,
        description=description,
        type_val=dashboard.VariableType.CUSTOM,
        query=",".join(value if shown == value else f"{shown} : {value}" for shown, value in meanings.items()),
        options=options,
        current=options[0],
        multi=False,
        include_all=False,
    )
