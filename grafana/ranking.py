"""The dashboard *Ranking quality*: all metrics, cut-offs and windows of all variants, final and live, now and earlier."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import variables
from grafana.layout import Section, build
from grafana.metric_kinds import ASSESSMENT, ENGAGEMENT, MetricKind
from grafana.panels import GREY, Block, Query, dashed, fixed, lines, listing, number, of_field, of_pattern, of_query
from grafana.queries import ANY, EXPERIMENT, KS, NONE, SEGMENTS, VARIANT, WINDOWS, state, state_rate
from streammetrics.exporters.prometheus.metric_series import RATIO_METRIC, sum_series, value_series
from streammetrics.exporters.prometheus.series import SERIES
from streammetrics.metrics.names import METRIC_NAMES

UID = "streammetrics-ranking"
SHARES = ("hit_rate", "item_hit_rate", "precision", "recall")
"""Metrics shown as percentages."""

_SPAN = {"window": WINDOWS, "segments": SEGMENTS}
_PLACE = {"k": KS, **_SPAN}
_CHOSEN = {"experiment": EXPERIMENT, "variant": VARIANT, **_PLACE}
_ALL = {"experiment": NONE, "variant": NONE, **_PLACE}
_GROUPS = {"experiment": EXPERIMENT, "variant": VARIANT, **_SPAN}
_USERS = {"experiment": EXPERIMENT, "variant": VARIANT, "window": WINDOWS}
_AT = "@{{k}} {{window}}"
_EMPTY = "No lists in these windows, or the metric is not in metrics.names"
_NO_LISTS = "No lists in these windows"
_DOTTED = {"fill": "dot", "dash": [2, 10]}
_BEFORE = {"yesterday": "1d", "last week": "1w"}


def ranking() -> dashboard.Dashboard:
    """Build the dashboard."""
    ranges = (_over_range(), _of_kind_over_range(ENGAGEMENT), _of_kind_over_range(ASSESSMENT))
    return build(
        uid=UID,
        title="streammetrics / Ranking quality",
        description="All metrics, cut-offs and windows of all variants: final and live, now and in the same hour earlier.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.experiment(),
            variables.variant(),
            variables.metric(),
            variables.of_kind(ENGAGEMENT),
            variables.of_kind(ASSESSMENT),
            variables.cutoffs(),
            variables.window(),
            variables.segments(),
        ],
        annotations=variables.marks(),
        since="now-24h",
        sections=[
            Section(
                title="$metric",
                blocks=(_now(), _chosen_metric(), _change()),
                repeat="metric",
            ),
            Section(
                title="Lists and feedback",
                blocks=(_counts(), _shares(), _feedback()),
            ),
            Section(title="Engagement, final and live", blocks=(_of_kind(ENGAGEMENT),), collapsed=True),
            Section(title="What lists show, final and live", blocks=(_of_kind(ASSESSMENT),), collapsed=True),
            Section(title="Over the selected time range", blocks=ranges, collapsed=True),
        ],
    )


def _value(view: str, groups: dict[str, str], offset: str = "") -> str:
    """Query the chosen metric. Its name is part of the series name. All metrics have the same labels."""
    name = value_series(METRIC_NAMES[0], view)
    return state(name, offset=offset, **groups).replace(name, value_series("${metric}", view))


def _now() -> Block:
    return number(
        "$metric now, final",
        "The newest final value of each variant and of all traffic.",
        "none",
        Query(_value("final", _ALL), f"all traffic {_AT}"),
        Query(_value("final", _CHOSEN), "{{variant}} " + _AT),
        decimals=4,
        empty=_EMPTY,
        width=24,
    )


def _chosen_metric() -> Block:
    return lines(
        "$metric, final and live",
        "Windows of final lists. Every list had its full time for feedback, and values no longer change. Dashed: live windows up to now. "
        "Their newest lists can still receive feedback, so values are newer and often lower. Dotted: final values of all traffic.",
        "none",
        Query(_value("final", _ALL), f"all traffic {_AT}"),
        Query(_value("final", _CHOSEN), "{{variant}} " + _AT),
        Query(_value("live", _CHOSEN), "{{variant}} " + f"{_AT}, live"),
        decimals=4,
        rules=(of_query("A", custom__lineStyle=_DOTTED, color=fixed(GREY)), dashed("C")),
        empty=_EMPTY,
    )


def _change() -> Block:
    now = _value("final", _CHOSEN)
    return lines(
        "$metric, change from the same hour earlier",
        "Change relative to one day and one week ago. If all variants fall together, the experiment is not the cause.",
        "percentunit",
        *(
            Query(f"{now} / ({_value('final', _CHOSEN, offset)} > 0) - 1", f"{{{{variant}}}} {_AT}, to {when}")
            for when, offset in _BEFORE.items()
        ),
        decimals=1,
        rules=(dashed("B"),),
        steps=((None, "transparent"), (0, GREY)),
        limits=True,
        empty="Prometheus has no data from one day ago yet",
    )


def _counts() -> Block:
    final, live = (state("streammetrics_window_lists", view=f'="{view}"', **_GROUPS) for view in ("final", "live"))
    return lines(
        "Lists and users of the window",
        "Number of final lists behind each value, of live lists (dashed), and of distinct users with final lists (dotted). Values of few "
        "lists vary a lot. Users are not counted by segment.",
        "short",
        Query(final, "{{variant}} {{window}}"),
        Query(live, "{{variant}} {{window}}, live"),
        Query(state("streammetrics_window_users", **_USERS), "{{variant}} {{window}}, users"),
        least=0,
        rules=(dashed("B"), of_query("C", custom__lineStyle=_DOTTED)),
        empty=_NO_LISTS,
    )


def _shares() -> Block:
    some, every = (state(f"streammetrics_window_lists{suffix}", view='="final"', **_GROUPS) for suffix in ("_with_feedback", ""))
    return lines(
        "Share of lists with feedback, and of users with a hit",
        "Share of final lists with a grade above 0. If it falls for all variants, suspect the tracking first. Dashed: share of users of "
        "the window with at least one hit. Users count after their sessions end, so this ends earlier. It is not counted by segment.",
        "percentunit",
        Query(f"{some} / {every}", "{{variant}} {{window}}"),
        Query(state("streammetrics_user_hit_rate", **_USERS, k=KS), "{{variant}} " + f"{_AT}, users with a hit"),
        least=0,
        rules=(dashed("B"),),
        empty=_NO_LISTS,
    )


def _feedback() -> Block:
    return lines(
        "Feedback by outcome",
        "Feedback of all traffic: matched, repeated (dashed), with an unknown action, and without a list by reason.",
        "cps",
        Query(state_rate("streammetrics_feedback_matched_total", []), "matched"),
        Query(state_rate("streammetrics_feedback_repeated_total", []), "repeated"),
        Query(state_rate("streammetrics_feedback_unknown_action_total", []), "unknown action"),
        Query(state_rate("streammetrics_feedback_unmatched_total", ["reason"]), "no list: {{reason}}"),
        least=0,
        rules=(dashed("B"),),
        empty="No feedback in this time range",
        width=24,
        height=7,
    )


def _of_kind(kind: MetricKind) -> Block:
    """Make the panel that is repeated for every chosen metric of a kind. The name of the metric decides the unit."""
    chosen = kind.title.lower()

    def value(view: str, groups: dict[str, str]) -> str:
        name = value_series(kind.names[0], view)
        return state(name, **_SPAN, **groups).replace(name, value_series(f"${{{chosen}}}", view))

    of_variants = {"experiment": EXPERIMENT, "variant": VARIANT}
    meanings = "".join(f"\n- {metric}: {SERIES[value_series(metric, 'final')].help}" for metric in kind.names)
    return lines(
        f"${chosen}",
        f"Final values, live values (dashed), and final values of all traffic (dotted).\n{meanings}",
        "none",
        Query(value("final", of_variants), f"${chosen} {{{{variant}}}} {{{{k}}}} {{{{window}}}}"),
        Query(value("live", of_variants), f"${chosen} {{{{variant}}}} {{{{k}}}} {{{{window}}}}, live"),
        Query(value("final", {"experiment": NONE, "variant": NONE}), f"${chosen} of all traffic {{{{k}}}} {{{{window}}}}"),
        rules=(
            *((of_pattern(f"/^({'|'.join(names)}) /", unit=unit) for unit, names in kind.units.items())),
            dashed("B"),
            of_query("C", custom__lineStyle=_DOTTED, color=fixed(GREY)),
        ),
        empty=kind.empty,
        repeat=chosen,
        width=24,
    )


def _of_kind_over_range(kind: MetricKind) -> Block:
    """Compute means of the metrics of a kind over any time range from counters."""
    groups = {"experiment": EXPERIMENT, "variant": VARIANT}
    gained = {"over": "$__range", "function": "increase"}
    lists = state_rate("streammetrics_final_lists_total", **gained, **groups)

    def mean(metric: str) -> str:
        k = NONE if metric in kind.without_k else ANY
        sums = [state_rate(sum_series(metric, each), **gained, k=k, **groups) for each in kind.kinds(metric)]
        return f"{sums[0]} / ({sums[1]} > 0)" if len(sums) == 2 else f"{sums[0]} / on (variant) group_left () ({lists} > 0)"

    summed = [metric for metric in kind.names if kind.kinds(metric)]  # quantiles have no sums
    letters = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", summed, strict=False))
    return listing(
        f"{kind.title} over the selected time range",
        f"All {kind.title.lower()} metrics over the lists that became final in the time range of the dashboard.",
        {"variant": "Variant", "k": "First k", **letters},
        *(Query(mean(metric)) for metric in summed),
        sort=("Variant", False),
        rules=(of_field("First k", decimals=0),),
        unit="none",
        decimals=4,
        empty=kind.empty,
        width=24,
    )


def _over_range() -> Block:
    """Compute means over any time range from counters: increase of sums / increase of lists."""
    groups = {"experiment": EXPERIMENT, "variant": VARIANT}
    gained = {"over": "$__range", "function": "increase"}
    lists = state_rate("streammetrics_final_lists_total", **gained, **groups)

    def mean(metric: str) -> str:
        if metric == RATIO_METRIC:
            hits, places = (state_rate(sum_series(metric, kind), **gained, k=KS, **groups) for kind in ("hits", "places"))
            return f"{hits} / ({places} > 0)"
        return f"{state_rate(sum_series(metric, 'sum'), **gained, k=KS, **groups)} / on (variant) group_left () ({lists} > 0)"

    letters = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", METRIC_NAMES, strict=False))
    return listing(
        "Means over the selected time range",
        "All metrics over the lists that became final in the time range of the dashboard, for any windows.",
        {"variant": "Variant", "k": "First k", **letters},
        *(Query(mean(metric)) for metric in METRIC_NAMES),
        sort=("Variant", False),
        rules=(of_field("First k", decimals=0),),  # Grafana converts a label that looks like a number
        unit="none",
        decimals=4,
        empty="No final lists in this time range",
        width=24,
    )
