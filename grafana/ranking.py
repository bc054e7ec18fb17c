"""The dashboard *Ranking quality*: every metric, cut-off and window of every variant, final beside live, now beside before."""

from __future__ import annotations

from grafana import variables
from grafana.house import GREY, Block, Query, Section, build, dashed, fixed, lines, listing, number, of_field, of_query
from grafana.queries import EXPERIMENT, KS, NONE, SEGMENTS, VARIANT, WINDOWS, state, state_rate
from grafana.sdk import dashboard
from streammetrics.exporters.prometheus.series import RATIO_METRIC, SERIES, sum_series, value_series
from streammetrics.metrics.names import METRIC_NAMES

UID = "streammetrics-ranking"
SHARES = ("hit_rate", "item_hit_rate", "precision", "recall")
"""Metrics that people read as percent."""

_SPAN = {"window": WINDOWS, "segments": SEGMENTS}
_PLACE = {"k": KS, **_SPAN}
_CHOSEN = {"experiment": EXPERIMENT, "variant": VARIANT, **_PLACE}
_ALL = {"experiment": NONE, "variant": NONE, **_PLACE}
_GROUPS = {"experiment": EXPERIMENT, "variant": VARIANT, **_SPAN}
_USERS = {"experiment": EXPERIMENT, "variant": VARIANT, "window": WINDOWS}
_AT = "@{{k}} {{window}}"
_EMPTY = "No lists in these windows, or the metric is not configured (metrics.names)"
_NO_USERS = "No users in these windows, or they are not counted (windows.users, and hit_rate in metrics.names)"
_BEFORE = {"yesterday": "1d", "last week": "1w"}


def ranking() -> dashboard.Dashboard:
    """The whole dashboard."""
    return build(
        uid=UID,
        title="streammetrics / Ranking quality",
        description="Every metric, cut-off and window of every variant: final beside live, now beside the same hour before.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.experiment(),
            variables.variant(),
            variables.metric(),
            variables.cutoffs(),
            variables.window(),
            variables.segments(),
        ],
        annotations=variables.marks(),
        since="now-24h",
        sections=[
            Section(title="$metric", blocks=(_now(), _chosen_metric("final"), _chosen_metric("live"), _before(), _change())),
            Section(
                title="Lists and feedback",
                blocks=(_lists("final"), _lists("live"), _users(), _user_hits(), _with_feedback(), _rate(), _grades(), _fates()),
            ),
            Section(title="Every metric, final beside live", blocks=tuple(_every_metric(False)), collapsed=True),
            Section(title="Every metric over lists with feedback", blocks=tuple(_every_metric(True)), collapsed=True),
            Section(title="Over the time range shown", blocks=(_over_range(),), collapsed=True),
        ],
    )


def _value(view: str, groups: dict[str, str], offset: str = "") -> str:
    """The chosen metric. Its name is a part of the series' name; all of them have the labels of the first."""
    name = value_series(METRIC_NAMES[0], view, False)
    return state(name, offset=offset, **groups).replace(name, value_series("${metric}", view, False))


def _now() -> Block:
    return number(
        "$metric now, final",
        "The latest final value of each variant and of all traffic.",
        "none",
        Query(_value("final", _ALL), f"all traffic {_AT}"),
        Query(_value("final", _CHOSEN), "{{variant}} " + _AT),
        decimals=4,
        empty=_EMPTY,
        width=24,
    )


def _chosen_metric(view: str) -> Block:
    told = {
        "final": "Windows of final lists: every list had its full time to earn feedback, and the number will not change.",
        "live": "Windows up to now: the latest lists may still earn feedback, so this runs ahead and below the final number.",
    }
    return _curves("$metric", view, told[view], _value(view, _ALL), _value(view, _CHOSEN), "none")


def _curves(metric: str, view: str, told: str, of_all: str, of_variants: str, unit: str) -> Block:
    return lines(
        f"{metric}, {view}",
        f"{told} Dashed: all traffic.",
        unit,
        Query(of_all, f"all traffic {_AT}"),
        Query(of_variants, "{{variant}} " + _AT),
        decimals=4 if unit == "none" else 2,
        rules=(of_query("A", custom__lineStyle={"fill": "dash", "dash": [10, 10]}, color=fixed(GREY)),),
        empty=_EMPTY,
    )


def _before() -> Block:
    earlier = [Query(_value("final", _CHOSEN, offset), f"{{{{variant}}}} {_AT}, {when}") for when, offset in _BEFORE.items()]
    return lines(
        "$metric, the same hour before",
        "Final values now, a day ago (dashed) and a week ago (dotted): nights and Sundays differ, so like is compared with like.",
        "none",
        Query(_value("final", _CHOSEN), "{{variant}} " + _AT),
        *earlier,
        decimals=4,
        rules=(dashed("B"), of_query("C", custom__lineStyle={"fill": "dot", "dash": [2, 10]})),
        empty=_EMPTY,
    )


def _change() -> Block:
    now = _value("final", _CHOSEN)
    return lines(
        "$metric, change to the same hour before",
        "Relative to a day ago and a week ago. All variants falling together is not the experiment's doing.",
        "percentunit",
        *(
            Query(f"{now} / ({_value('final', _CHOSEN, offset)} > 0) - 1", f"{{{{variant}}}} {_AT}, to {when}")
            for when, offset in _BEFORE.items()
        ),
        decimals=1,
        rules=(dashed("B"),),
        steps=((None, "transparent"), (0, GREY)),
        limits=True,
        empty="Prometheus holds nothing of a day ago yet",
    )


def _lists(view: str) -> Block:
    return lines(
        f"Lists of the window, {view}",
        "How many lists a value stands on. Few lists make a number that jumps.",
        "short",
        Query(state("streammetrics_window_lists", view=f'="{view}"', **_GROUPS), "{{variant}} {{window}}"),
        least=0,
        empty=_EMPTY,
    )


def _users() -> Block:
    return lines(
        "Users of the window",
        "Distinct users of final lists, each counted once however many lists he saw. Not split by segment.",
        "short",
        Query(state("streammetrics_window_users", **_USERS), "{{variant}} {{window}}"),
        least=0,
        empty=_NO_USERS,
    )


def _user_hits() -> Block:
    return lines(
        "Users with a hit, by users of the window",
        "The user grain of HitRate: how many of those who came were served at all. It ends somewhat before the other final windows, "
        "when the lists of their visits have been counted. Not split by segment.",
        "percentunit",
        Query(state("streammetrics_user_hit_rate", **_USERS, k=KS), "{{variant}} " + _AT),
        least=0,
        empty=_NO_USERS,
    )


def _with_feedback() -> Block:
    some, every = (state(f"streammetrics_window_lists{suffix}", view='="final"', **_GROUPS) for suffix in ("_with_feedback", ""))
    return lines(
        "Share of lists with feedback",
        "Final lists that have some grade above 0. When it falls for every variant, tracking is more likely than ranking.",
        "percentunit",
        Query(f"{some} / {every}", "{{variant}} {{window}}"),
        least=0,
        empty=_EMPTY,
        width=8,
    )


def _rate() -> Block:
    some, every = (
        state_rate(f"streammetrics_final_lists{suffix}_total", experiment=EXPERIMENT, variant=VARIANT) for suffix in ("_with_feedback", "")
    )
    return lines(
        "Final lists per second",
        "Lists that became final, and those of them with feedback (dashed).",
        "cps",
        Query(every, "{{variant}}"),
        Query(some, "{{variant}}, with feedback"),
        least=0,
        rules=(dashed("B"),),
        empty="No final lists in this time range",
        width=8,
    )


def _grades() -> Block:
    """The grade mix as one number: sums of gains by relevant items, both over the first k of the same final lists."""
    groups = {"experiment": EXPERIMENT, "variant": VARIANT, "k": KS}
    gains, items = state_rate(sum_series("cg", "sum"), **groups), state_rate(sum_series(RATIO_METRIC, "hits"), **groups)
    return lines(
        "Mean grade of a relevant item",
        "Gain of the first k items by relevant items among them, over lists that became final: 1 when every reaction is a click, more "
        "with long watches and purchases. Where grades below the relevant one exist, these count above the line only. "
        f"Needs the metrics cg and {RATIO_METRIC}.",
        "none",
        Query(f"{gains} / ({items} > 0)", "{{variant}} @{{k}}"),
        decimals=3,
        empty=f"Needs the metrics cg and {RATIO_METRIC} (metrics.names), and relevant items",
        width=8,
    )


def _fates() -> Block:
    return lines(
        "Feedback by what became of it",
        "Of all traffic: what counts for a list, how much of that only repeats, what no grade rule names, and what finds no list.",
        "cps",
        Query(state_rate("streammetrics_feedback_matched_total", []), "matched"),
        Query(state_rate("streammetrics_feedback_repeated_total", []), "of these repeated"),
        Query(state_rate("streammetrics_feedback_unknown_action_total", []), "unknown action"),
        Query(state_rate("streammetrics_feedback_unmatched_total", ["reason"]), "no list: {{reason}}"),
        least=0,
        rules=(dashed("B"),),
        empty="No feedback in this time range",
        width=24,
        height=7,
    )


def _every_metric(with_feedback: bool) -> list[Block]:
    """Two panels a metric, for every one of the table."""
    blocks = []
    for metric in METRIC_NAMES:
        for view in ("final", "live"):
            name = value_series(metric, view, with_feedback)
            unit = "percentunit" if metric in SHARES else "none"
            title = f"{metric} over lists with feedback" if with_feedback else metric
            blocks.append(_curves(title, view, SERIES[name].help, state(name, **_ALL), state(name, **_CHOSEN), unit))
    return blocks


def _over_range() -> Block:
    """Means over any time from the counters: sums that grew by lists that came."""
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
        "Means over the time range shown",
        "Every metric over the lists that became final in the time range of the dashboard, whatever windows are configured.",
        {"variant": "Variant", "k": "First k", **letters},
        *(Query(mean(metric)) for metric in METRIC_NAMES),
        sort=("Variant", False),
        rules=(of_field("First k", decimals=0),),  # Grafana takes a label that looks like a number for one
        unit="none",
        decimals=4,
        empty="No final lists in this time range",
        width=24,
    )
