"""The variables at the top of a dashboard, and the annotations on its curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.models import dashboard

from grafana.layout import SOURCE
from grafana.metric_kinds import MetricKind
from grafana.panels import BLUE, GREEN, RED
from grafana.queries import EXPERIMENT, METRIC, selector
from streammetrics.metrics.names import METRIC_NAMES

ALERT_PATTERN = "Streammetrics.+"
"""The pattern of alert names."""
WHOLE_TRAFFIC = "()"
"""A pattern that matches only empty text: groups without a segment."""

Variable = dashboard.VariableModel


def datasource() -> Variable:
    """Choose the Prometheus."""
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
    """Choose one deployment. Numbers of two deployments cannot be aggregated."""
    return _queried(
        "job",
        "Job",
        "label_values(streammetrics_build_info, job)",
        "The scrape job: all processes of one deployment.",
        current="streammetrics",
    )


def experiment() -> Variable:
    """Choose an experiment that has lists."""
    query = f"label_values({selector('streammetrics_variant_info')}, experiment)"
    return _queried("experiment", "Experiment", query, "The experiment whose variants are compared.")


def variant(role: str = "") -> Variable:
    """Choose variants of the experiment, of one role or of any."""
    matchers = {"experiment": EXPERIMENT, **({"role": f'="{role}"'} if role else {})}
    query = f"label_values({selector('streammetrics_variant_info', **matchers)}, variant)"
    which = "Variants to compare with the control." if role else "Variants to show."
    # Without experiments the dashboard shows all traffic, which has an empty variant. Rows of a whole experiment are not variants.
    return _queried("variant", "Variant", query, which, many=True, all_value=".+" if role else ".*")


def measured_metric() -> Variable:
    """Choose a measure of an experiment, also user_hit_rate."""
    query = f"label_values({selector('streammetrics_experiment_mean', experiment=EXPERIMENT)}, metric)"
    return _queried("metric", "Metric", query, "The measure of the curves. The verdict table has all of them.", current="ndcg")


def measured_k() -> Variable:
    """Choose a cut-off of the measure."""
    query = f"label_values({selector('streammetrics_experiment_mean', experiment=EXPERIMENT, metric=METRIC)}, k)"
    return _queried("k", "Cut-off", query, "The first k items of a list.", current="10", numbers=True)


def scope() -> Variable:
    """Choose which lists of the experiment count."""
    meanings = {"since its start": "start", "today (UTC)": "day"}
    return _chosen("scope", "Scope", meanings, "The whole experiment, or the current UTC day. Earlier good days do not hide a bad day.")


def metric() -> Variable:
    """Choose metrics of ranking quality. Their names are part of series names."""
    meanings = {name: name for name in METRIC_NAMES}
    return _chosen("metric", "Metric", meanings, "The first row is shown for each of these metrics.", many=True)


def of_kind(kind: MetricKind) -> Variable:
    """Choose metrics of a kind, by default all of them."""
    title = kind.title.lower()
    description = f"The {title} metrics to show. Each has a panel in its row. Those that are not counted stay empty."
    return _chosen(title, kind.title, {name: name for name in kind.names}, description, many=True, all_of_them=True)


def cutoffs() -> Variable:
    """Choose cut-offs."""
    query = 'label_values({__name__=~"streammetrics_live_.+", job=~"$job"}, k)'
    return _queried("k", "Cut-off", query, "The first k items of a list.", current="10", numbers=True, many=True)


def window() -> Variable:
    """Choose windows."""
    query = f"label_values({selector('streammetrics_window_lists')}, window)"
    return _queried("window", "Window", query, "The span of event time that a value covers.", many=True)


def segments() -> Variable:
    """Choose one segment, or all traffic."""
    query = f"label_values({selector('streammetrics_window_lists')}, segments)"
    return _queried("segments", "Segment", query, "One segment value, or All for all traffic.", all_value=WHOLE_TRAFFIC)


def marks() -> list[dashboard.AnnotationQuery]:
    """Annotate firing alerts, new versions, and the marks that were posted."""
    # StreammetricsAbsent has no job. Alerts of other jobs do not belong on this dashboard.
    alerts = f'ALERTS{{alertstate="firing", alertname=~"{ALERT_PATTERN}", job=~"$job|"}}'
    known = f"group by (version) ({selector('streammetrics_build_info')})"
    before = f"group by (version) ({selector('streammetrics_build_info', offset='5m')})"
    deploys = selector("streammetrics_mark_timestamp_seconds", kind='="deploy"')
    newest = f"max by (kind, experiment, text) ({deploys})"
    posted = f"group by (kind, experiment, text) ((time() - {newest}) < 120 >= 0)"
    return [
        _annotation("Alerts", RED, alerts, "{{alertname}}", "{{severity}} {{experiment}} {{variant}}", "alertname,severity"),
        _annotation("Deploys", GREEN, posted, "{{text}}", "{{kind}} {{experiment}}", "kind"),
        _annotation("Versions", BLUE, f"{known} unless {before}", "version {{version}}", "new version", "version"),
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
    annotation.placement = annotation.built_in = None  # type: ignore[assignment]  # a visible switch, and no built-in annotation
    return annotation


def _variable(**fields: Any) -> Variable:
    """Make a variable without the SDK's fields for intervals."""
    made = Variable(**fields)
    made.auto = made.auto_min = made.auto_count = None
    return made


def _queried(
    name: str,
    label: str,
    query: str,
    description: str,
    *,
    current: str = "",
    many: bool = False,
    all_value: str = "",
    numbers: bool = False,
) -> Variable:
    """Make a variable with values from Prometheus, queried again when the time range changes."""
    chosen: str | list[str] = [current] if many else current
    if all_value and not current:
        chosen = ["$__all"] if many else "$__all"
    return _variable(
        name=name,
        label=label,
        description=description,
        type_val=dashboard.VariableType.QUERY,
        datasource=SOURCE,
        query={"query": query, "refId": f"variable-{name}", "qryType": 1},
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


def _chosen(
    name: str, label: str, meanings: Mapping[str, str], description: str, *, many: bool = False, all_of_them: bool = False
) -> Variable:
    """Make a variable with fixed values, by display text. many: people may choose several. The first is selected, or `all_of_them`."""
    options = [dashboard.VariableOption(text=shown, value=value, selected=at == 0) for at, (shown, value) in enumerate(meanings.items())]
    return _variable(
        name=name,
        label=label,
        description=description,
        type_val=dashboard.VariableType.CUSTOM,
        query=",".join(value if shown == value else f"{shown} : {value}" for shown, value in meanings.items()),
        options=options,
        current=dashboard.VariableOption(text=["All"], value=["$__all"]) if all_of_them else options[0],
        multi=many,
        include_all=all_of_them,
    )
