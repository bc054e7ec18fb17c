"""Cases for every alert: series for which it must fire, with its texts, and series for which it must not. Data for `promtool test rules`.

Values use promtool's notation: `0+5x20` adds 5 per step for 20 steps, `_` is a missing sample. A step is a minute unless the case
says otherwise. Times are those of the real rules, not shortened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

JOB = "streammetrics"


@dataclass(frozen=True, slots=True)
class Fired:
    """One expected alert: its labels besides alertname, and its texts."""

    severity: str
    labels: Mapping[str, str]
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class Case:
    """Series by name with labels, evaluated at `at`. `fires` has all alerts of this name that must fire."""

    alert: str
    name: str
    series: Mapping[str, str]
    at: str
    fires: tuple[Fired, ...] = field(default=())
    step: str = "1m"


def one(name: str, **labels: str) -> str:
    """Return the name of a series with the default job and instance.

    >>> one("up", instance="a:1")
    'up{job="streammetrics",instance="a:1"}'
    """
    values = {"job": JOB, "instance": "exporter:9464", **labels}
    pairs = ",".join(f'{key}="{value}"' for key, value in values.items())
    return f"{name}{{{pairs}}}"


def fired(severity: str, summary: str, description: str, **labels: str) -> Fired:
    return Fired(severity, {"job": JOB, **labels}, summary, description)


# --- experiments

EXPERIMENT = {"experiment": "ranker", "scope": "start"}


def verdict(code: int | str, variant: str = "", metric: str = "", k: str = "", **labels: str) -> dict[str, str]:
    values = f"{code}+0x60" if isinstance(code, int) else code
    return {one("streammetrics_experiment_verdict", **{**EXPERIMENT, **labels}, variant=variant, metric=metric, k=k): values}


def of_experiment(name: str, value: str, variant: str = "", metric: str = "", k: str = "", **labels: str) -> dict[str, str]:
    return {one(f"streammetrics_experiment_{name}", **{**EXPERIMENT, **labels}, variant=variant, metric=metric, k=k): f"{value}+0x60"}


def judged(upper: str, lift: str = "-0.123", **labels: str) -> dict[str, str]:
    """The lift of ndcg@10 and its upper bound."""
    return {**of_experiment("judged_lift_upper", upper, *NDCG, **labels), **of_experiment("lift", lift, *NDCG, **labels)}


def paging(metric: str = "ndcg", **labels: str) -> dict[str, str]:
    return {one("streammetrics_experiment_paging", **{**EXPERIMENT, **labels}, metric=metric, k="10"): "1+0x60"}


NDCG = ("treatment", "ndcg", "10")
MRR = ("treatment", "mrr", "10")
ABANDONMENT = ("treatment", "abandonment", "10")
OF_TREATMENT = {"experiment": "ranker", "variant": "treatment"}
SINCE = "Regressed since 1970-01-01 00:00:00 +0000 UTC."
NDCG_FELL = "ndcg@10 since the experiment began: -12.3 % against control, certainly worse by 7 %. "


def regressed(severity: str, measures: str, since: str = SINCE, *, bound: str = "") -> Fired:
    summary = f"treatment of ranker ranks worse than control{bound and f', certainly by {bound} %'}"
    return fired(severity, summary, f"{measures}{since}", **OF_TREATMENT)


REGRESSED_A_LITTLE = regressed(
    "warning", "ndcg@10 since the experiment began: -12.3 % against control, certainly worse by 3 %. ", bound="3"
)

RANKING = (
    Case(
        "StreammetricsRankingRegressed",
        "critical and warning, when the worst upper bound is below the threshold",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **judged("-0.07"),
            **of_experiment("judged_lift_upper", "-0.01", *MRR),
            **of_experiment("users", "4120", "treatment"),
            **paging(),
            **paging("mrr"),
        },
        "5m",
        tuple(
            regressed(
                severity, "ndcg@10 since the experiment began: -12.3 % against control, certainly worse by 7 %, 4120 users. ", bound="7"
            )
            for severity in ("critical", "warning")
        ),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "once for a drop since the start and today, with both, whatever characters the names have",
        {
            series.replace('"ranker"', '"rank \\"er\\\\"'): values
            for scope in ("start", "day")
            for series, values in {
                **verdict(-1, scope=scope),
                **verdict(-1, *NDCG, scope=scope),
                **judged("-0.07", scope=scope),
                **paging(scope=scope),
            }.items()
        },
        "5m",
        tuple(
            replace(
                regressed(severity, "ndcg@10 since midnight UTC: -12.3 % against control, certainly worse by 7 %. " + NDCG_FELL),
                labels={"job": JOB, **OF_TREATMENT, "experiment": 'rank "er\\'},
                summary='treatment of rank "er\\ ranks worse than control, certainly by 7 %',
            )
            for severity in ("critical", "warning")
        ),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "with the bounds of measures that rise and of those that fall",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **verdict(-1, *ABANDONMENT),
            **judged("-0.03"),
            **of_experiment("lift_lower", "-0.2", *NDCG),
            **of_experiment("lift_upper", "-0.03", *NDCG),
            **of_experiment("lift", "0.123", *ABANDONMENT),
            **of_experiment("judged_lift_upper", "-0.04", *ABANDONMENT),
            **of_experiment("lift_lower", "0.04", *ABANDONMENT),
            **of_experiment("lift_upper", "0.2", *ABANDONMENT),
            **paging(),
            **paging("abandonment"),
        },
        "5m",
        (
            regressed(
                "warning",
                "abandonment@10 since the experiment began: +12.3 % against control, certainly worse by 4 %. "
                "ndcg@10 since the experiment began: -12.3 % against control, certainly worse by 3 %. ",
                bound="4",
            ),
        ),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "without a bound in percent, when the control is at 0",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **of_experiment("judged_lift_upper", "-1", *NDCG),
            **of_experiment("users", "4120", "treatment"),
            **paging(),
        },
        "5m",
        tuple(
            regressed(severity, "ndcg@10 since the experiment began: the control is at 0, so there is no lift in percent, 4120 users. ")
            for severity in ("critical", "warning")
        ),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "a warning only, when the drop may be small",
        {**verdict(-1), **verdict(-1, *NDCG), **judged("-0.03"), **paging()},
        "5m",
        (REGRESSED_A_LITTLE,),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "a warning, when the lift has no upper bound",
        {**verdict(-1), **verdict(-1, *NDCG), **verdict(0, *MRR), **paging()},
        "5m",
        (regressed("warning", "ndcg@10 since the experiment began. "),),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "measures of the day, by their scope",
        {**verdict(-1, scope="day"), **verdict(-1, *NDCG, scope="day"), **verdict(0), **verdict(0, *NDCG), **paging(scope="day")},
        "5m",
        (regressed("warning", "ndcg@10 since midnight UTC. "),),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "once for two exporters",
        {
            **verdict(-1),
            **verdict(-1, instance="exporter-2:9464"),
            **verdict(-1, *NDCG),
            **verdict(-1, *NDCG, instance="exporter-2:9464"),
            **judged("-0.07"),
            **paging(),
            **paging(instance="exporter-2:9464"),
        },
        "5m",
        tuple(regressed(severity, NDCG_FELL, bound="7") for severity in ("critical", "warning")),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not once the experiment has had no list for a day",
        {
            **dict.fromkeys([*verdict(-1), *verdict(-1, *NDCG)], "-1+0x500"),
            **dict.fromkeys(judged("-0.07"), "-0.07+0x500"),
            **dict.fromkeys(paging(), "1+0x500"),
            one("streammetrics_final_lists_total", experiment="ranker", variant="treatment"): "0+9x100 900+0x400",
        },
        "2000m",
        step="5m",
    ),
    Case("StreammetricsRankingRegressed", "not before five minutes", {**verdict(-1), **verdict(-1, *NDCG), **paging()}, "4m"),
    Case(
        "StreammetricsRankingRegressed",
        "still, ten minutes after the verdict changed",
        {**verdict("-1+0x9 0+0x40"), **verdict("-1+0x9 0+0x40", *NDCG), **paging()},
        "20m",
        (regressed("warning", "ndcg@10 since the experiment began. "),),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "no longer, more than fifteen minutes after",
        {**verdict("-1+0x9 0+0x40"), **verdict("-1+0x9 0+0x40", *NDCG), **paging()},
        "26m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "with what bends the numbers of this variant",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **judged("-0.03"),
            **paging(),
            **{
                one("streammetrics_experiment_warning", **EXPERIMENT, variant=variant, warning=warning): "1+0x60"
                for variant, warning in (("treatment", "lists per user"), ("other", "losses"), ("", "same users"))
            },
        },
        "5m",
        (
            regressed(
                "warning",
                "ndcg@10 since the experiment began: -12.3 % against control, certainly worse by 3 %. ",
                f"Warnings about these numbers: lists per user, same users. {SINCE}",
                bound="3",
            ),
        ),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for a measure that does not page",
        {**verdict(0), **verdict(-1, *NDCG), **judged("-0.07"), **paging("mrr")},
        "30m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for a measure that does not page, beside a variant that regressed",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **verdict(-1, "other", "mrr", "10"),
            **judged("-0.03"),
            **of_experiment("judged_lift_upper", "-0.15", "other", "mrr", "10"),
            **paging(),
        },
        "30m",
        (REGRESSED_A_LITTLE,),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for an inconclusive drop",
        {**verdict(0), **verdict(0, *NDCG), **judged("-0.07"), **paging()},
        "30m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not in an invalid experiment",
        {**verdict(-2), **verdict(-2, *NDCG), **judged("-0.07"), **paging()},
        "30m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for safe or improved measures",
        {**verdict(1), **verdict(1, *NDCG), **verdict(2, *MRR), **of_experiment("judged_lift_upper", "0.02", *NDCG), **paging()},
        "30m",
    ),
    Case(
        "StreammetricsSampleRatioMismatch",
        "for an unlikely split",
        {**verdict(-2), **of_experiment("srm_p_value", "0.001")},
        "10m",
        (
            fired(
                "warning",
                "Users of ranker are not split as configured: p-value 0.001",
                "Counted since it began, the p-value of the split is 0.001. Its verdicts are invalid, and it does not page.",
                **EXPERIMENT,
            ),
        ),
    ),
    Case(
        "StreammetricsSampleRatioMismatch",
        "not for a likely split, though the experiment is invalid",
        {**verdict(-2), **of_experiment("srm_p_value", "0.4")},
        "30m",
    ),
    Case(
        "StreammetricsSampleRatioMismatch",
        "not where the policy tolerates it",
        {**verdict(0), **of_experiment("srm_p_value", "0.005")},
        "30m",
    ),
    Case(
        "StreammetricsExperimentInvalid",
        "for an invalid experiment that no other alert explains",
        {**verdict(-2), **of_experiment("users", "900", "control"), **of_experiment("users", "340", "treatment")},
        "30m",
        (
            fired(
                "warning",
                "The numbers of ranker cannot be trusted: they are of 1240 users",
                "Counted since it began, its verdict is invalid, and no other alert explains it. It does not page.",
                **EXPERIMENT,
            ),
        ),
    ),
    Case("StreammetricsExperimentInvalid", "not for a regression", {**verdict(-1), **verdict(-1, *NDCG)}, "60m"),
    Case(
        "StreammetricsVerdictMixed",
        "for measures that contradict each other",
        {
            **verdict(-3),
            **verdict(-3, *NDCG),
            **verdict(-3, *MRR),
            **verdict(0, *ABANDONMENT),
            **of_experiment("lift", "-0.0412", *NDCG),
            **of_experiment("lift", "0.06", *MRR),
            **of_experiment("lift", "0.1", *ABANDONMENT),
        },
        "30m",
        (
            fired(
                "warning",
                "The measures of ranker contradict each other: treatment mrr@10 +6 %, treatment ndcg@10 -4.12 %",
                "Counted since it began, one deciding measure is better than control and another worse. It does not page as a regression.",
                **EXPERIMENT,
            ),
        ),
    ),
    Case("StreammetricsVerdictMixed", "not for a regression", {**verdict(-1), **verdict(-1, *NDCG)}, "60m"),
    Case(
        "StreammetricsRankingRegressed",
        "not for measures that contradict each other",
        {**verdict(-3), **verdict(-3, *NDCG), **judged("-0.07"), **paging()},
        "30m",
    ),
)

# --- all variants together: 5 minutes a step, 2,016 steps a week

LISTS = one("streammetrics_final_lists_total", experiment="", variant="")
SUM = one("streammetrics_final_ndcg_sum_total", experiment="", variant="", k="10")
FELL_SUMMARY = "Ranking quality of all traffic fell to a mean ndcg@10 of 0.240"


def fell(drop: str, variants: str = "No experiment is running.") -> str:
    return (
        f"The final lists of the last hour are worse by more than {drop} than those of the same hour yesterday or last week, "
        f"whichever was lower (0.400). What variants with an alert of their own cost is left out. {variants}"
    )


def a_regression(lift: str, lists: str) -> dict[str, str]:
    """A treatment that has ranked worse for an hour and a half, with this lift and as many lists per step."""
    return {
        **verdict("0+0x310 -1+0x60"),
        **verdict("0+0x310 -1+0x60", *NDCG),
        **dict.fromkeys(of_experiment("lift", lift, *NDCG), f"{lift}+0x400"),
        **dict.fromkeys(paging(), "1+0x400"),
        one("streammetrics_final_lists_total", experiment="ranker", variant="treatment"): f"0+{lists}x400",
    }


def fell_a_little(variants: str = "No experiment is running.") -> Fired:
    return fired("warning", "Ranking quality of all traffic fell to a mean ndcg@10 of 0.340", fell("10 %", variants))


FALLEN = (
    Case(
        "StreammetricsAllVariantsFell",
        "when the last hour is worse than a day and a week ago",
        {LISTS: "0+50x2100", SUM: "0+20x2020 40412+12x60"},
        "10205m",
        (fired("critical", FELL_SUMMARY, fell("25 %")), fired("warning", FELL_SUMMARY, fell("10 %"))),
        "5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "as a warning, when it is a little worse; in the first week compared with yesterday only",
        {LISTS: "0+50x400", SUM: "0+20x310 6217+17x60"},
        "1655m",
        (fell_a_little(),),
        "5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "and says so, when no variant ranks worse",
        {
            LISTS: "0+50x400",
            SUM: "0+20x310 6217+17x60",
            **verdict("0+0x400", *NDCG),
        },
        "1655m",
        (
            fired(
                "warning",
                "Ranking quality of all traffic fell to a mean ndcg@10 of 0.340",
                fell("10 %", "No variant ranks worse than its control."),
            ),
        ),
        "5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "and names the variants that rank worse in measures that do not page",
        {
            LISTS: "0+50x400",
            SUM: "0+20x310 6217+17x60",
            **verdict("-1+0x400", *NDCG),
            **verdict("-1+0x400", *MRR),
            **verdict("-1+0x400", "other", "mrr", "10", experiment="home"),
            **verdict("0+0x400", "third", "mrr", "10"),
        },
        "1655m",
        (
            fired(
                "warning",
                "Ranking quality of all traffic fell to a mean ndcg@10 of 0.340",
                fell("10 %", "Variants that rank worse than their control: other of home treatment of ranker."),
            ),
        ),
        "5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "not when the same hour of last week was no better",
        {LISTS: "0+50x2100", SUM: "0+12x60 740+20x1959 39932+12x60"},
        "10205m",
        step="5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "not for an hour of few lists",
        {LISTS: "0+5x400", SUM: "0+2x310 621+1x60"},
        "1655m",
        step="5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "not for a regression with an alert of its own that explains the drop",
        {
            LISTS: "0+50x400",
            SUM: "0+20x310 6212+12x60",
            **a_regression("-0.8", "25"),
        },
        "1655m",
        step="5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "when a small regression explains little of the drop",
        {
            LISTS: "0+50x400",
            SUM: "0+20x310 6212+12x60",
            **a_regression("-0.8", "1"),
        },
        "1655m",
        tuple(
            fired(severity, FELL_SUMMARY, fell(drop, "Variants that rank worse than their control: treatment of ranker."))
            for severity, drop in (("critical", "25 %"), ("warning", "10 %"))
        ),
        step="5m",
    ),
    Case(
        "StreammetricsAllVariantsFell",
        "when all traffic fell and the treatment too, which is no explanation",
        {
            LISTS: "0+50x400",
            SUM: "0+20x310 6212+12x60",
            **a_regression("-0.04", "25"),
        },
        "1655m",
        tuple(
            fired(severity, FELL_SUMMARY, fell(drop, "Variants that rank worse than their control: treatment of ranker."))
            for severity, drop in (("critical", "25 %"), ("warning", "10 %"))
        ),
        step="5m",
    ),
    Case("StreammetricsAllVariantsFell", "not on the first day", {LISTS: "0+50x200", SUM: "0+20x100 2010+5x60"}, "700m", step="5m"),
)

EMPTY = one("streammetrics_final_zero_result_rate_sum_total", experiment="", variant="", k="")

ZERO_RESULTS = (
    Case(
        "StreammetricsZeroResultsRose",
        "when three times as many lists are empty as a week ago",
        {LISTS: "0+50x2100", EMPTY: "0+1x2020 2023+3x60"},
        "10205m",
        (
            fired(
                "warning",
                "6% of the lists of all traffic have no item",
                "This is more than 2 times the share of the same hour last week. Users see empty lists.",
            ),
        ),
        "5m",
    ),
    Case("StreammetricsZeroResultsRose", "not at the rate of last week", {LISTS: "0+50x2100", EMPTY: "0+3x2100"}, "10205m", step="5m"),
    Case(
        "StreammetricsZeroResultsRose",
        "not while hardly any list is empty",
        {LISTS: "0+500x2100", EMPTY: "0+1x2020 2023+3x60"},
        "10205m",
        step="5m",
    ),
    Case(
        "StreammetricsZeroResultsRose",
        "not for an hour of few lists",
        {LISTS: "0+5x2100", EMPTY: "0+1x2020 2023+3x60"},
        "10205m",
        step="5m",
    ),
)

# --- input

EVENTS = one("streammetrics_events_total", topic="impressions")
MATCHED = one("streammetrics_feedback_matched_total", topic="feedback")
ORPHANS = one("streammetrics_feedback_unmatched_total", topic="feedback", reason="orphan")
TOO_OLD = one("streammetrics_feedback_unmatched_total", topic="feedback", reason="too_old")
SEVERAL_RATIO = one("streammetrics_users_on_several_partitions_ratio")
LATE = one("streammetrics_dropped_total", topic="impressions", reason="late")
LAG = one("streammetrics_lag_records", instance="worker:9464", topic="impressions", partition="0")

INPUT = (
    Case(
        "StreammetricsJoinUnhealthy",
        "when half of the feedback matches no list",
        {MATCHED: "0+60x90", ORPHANS: "0+48x90", TOO_OLD: "0+12x90"},
        "60m",
        (
            fired(
                "warning",
                "50% of the feedback counts for no list",
                "Lists look worse than they are, in every variant. Events per second by reason: orphan 0.8 too_old 0.2.",
            ),
        ),
    ),
    Case("StreammetricsJoinUnhealthy", "not for a fifth", {MATCHED: "0+80x90", ORPHANS: "0+20x90"}, "90m"),
    Case("StreammetricsJoinUnhealthy", "not for a few", {MATCHED: "0+1x90", ORPHANS: "0+2x90"}, "90m"),
    Case(
        "StreammetricsUsersOnSeveralPartitions",
        "when a quarter of the users is on several partitions",
        {SEVERAL_RATIO: "0.25+0x60"},
        "30m",
        (
            fired(
                "warning",
                "25% of the users have events on several partitions",
                "Their feedback may miss its list, so lists look worse than they are. A producer does not use the user id as key, "
                "or producers use different partitioners.",
            ),
        ),
    ),
    Case(
        "StreammetricsUsersOnSeveralPartitions",
        "not for one user in a hundred",
        {SEVERAL_RATIO: "0.01+0x60"},
        "60m",
    ),
    Case(
        "StreammetricsNoTraffic",
        "for a topic without events that had traffic a week ago, and not for the other",
        {EVENTS: "0+60x2000 120000+0x60", EVENTS.replace("impressions", "feedback"): "0+60x2060", LAG: "0+0x2060"},
        "10150m",
        (
            fired(
                "critical",
                "Topic impressions has had no events for 15 minutes",
                "No event came for a quarter of an hour, and none is waiting. There was traffic at this time last week: 20 events or more.",
                topic="impressions",
            ),
        ),
        step="5m",
    ),
    Case(
        "StreammetricsNoTraffic",
        "a warning only, without data from a week ago",
        {EVENTS: "0+60x30 1800+0x60", EVENTS.replace("impressions", "feedback"): "0+60x90", LAG: "0+0x90"},
        "60m",
        (
            fired(
                "warning",
                "Topic impressions has had no events for 15 minutes",
                "No event came for a quarter of an hour, and none is waiting. There is no data from last week to compare with.",
                topic="impressions",
            ),
        ),
    ),
    Case("StreammetricsNoTraffic", "not for a short silence", {EVENTS: "0+60x30 1800+0x12 1800+60x30", LAG: "0+0x90"}, "60m"),
    Case("StreammetricsNoTraffic", "not while records wait to be read", {EVENTS: "0+60x30 1800+0x60", LAG: "5+9x90"}, "60m"),
    Case(
        "StreammetricsNoTraffic",
        "not in a night with four events an hour, as a week ago",
        {EVENTS: "0+1x2016 2016+0x60", LAG: "0+0x2300"},
        "10200m",
        step="5m",
    ),
    Case(
        "StreammetricsNoTraffic",
        "not for a topic with few events in its first week",
        {EVENTS: "0+1x30 30+0x60", LAG: "0+0x90"},
        "60m",
    ),
    Case(
        "StreammetricsNoTraffic",
        "not in a night that was as quiet yesterday, in the first week",
        {EVENTS: "0+60x180 10800+0x108 10800+60x180 21600+0x108", LAG: "0+0x700"},
        "2700m",
        step="5m",
    ),
    Case(
        "StreammetricsNoTraffic",
        "not in a night that was as quiet a week ago",
        {EVENTS: "0+0x100 0+60x1900 114000+0x300", LAG: "0+0x2300"},
        "10290m",
        step="5m",
    ),
    Case(
        "StreammetricsEventsRefused",
        "for one event in twenty, and the same with two exporters",
        {
            **{EVENTS: "0+60x60", LATE: "0+3x60"},
            **{
                series_name.replace("exporter:9464", "exporter-2:9464"): times
                for series_name, times in ((EVENTS, "0+60x60"), (LATE, "0+3x60"))
            },
        },
        "40m",
        (
            fired(
                "warning",
                "5% of the events are refused",
                "They are in no number. Most of them are in the dead-letter topic. Events per second by reason: late 0.05.",
            ),
        ),
    ),
    Case("StreammetricsEventsRefused", "not for one in two hundred", {EVENTS: "0+200x60", LATE: "0+1x60"}, "60m"),
    Case("StreammetricsEventsRefused", "not for a few", {EVENTS: "0+4x60", LATE: "0+1x60"}, "60m"),
)

# --- the pipeline

TASKS = one("streammetrics_tasks")
WORKER = "worker:9464"
STORE_UP, STORE_UP_WORKER = one("streammetrics_store_up"), one("streammetrics_store_up", instance=WORKER)
SOURCE_UP = one("streammetrics_source_up", instance=WORKER)
RESULTS_FAILED = one("streammetrics_results_total", status="failed")
READERS_UP = one("streammetrics_readers_up", instance=WORKER)
WATERMARK = one("streammetrics_tasks_watermark_timestamp_seconds")
LAG_SECONDS = one("streammetrics_lag_seconds", instance=WORKER, topic="impressions", partition="0")
WRITTEN = one("streammetrics_commits_total", instance=WORKER, status="written")
FAILED = one("streammetrics_commits_total", instance=WORKER, status="failed")
FENCED = one("streammetrics_commits_total", instance=WORKER, status="fenced")
NODE = "redis:6379"
MEMORY, MEMORY_LIMIT = one("streammetrics_store_memory_bytes", node=NODE), one("streammetrics_store_memory_limit_bytes", node=NODE)
EVICTS, FORGETS = one("streammetrics_store_evicts", node=NODE), one("streammetrics_store_forgets", node=NODE)
SAFE = {MEMORY: "100+0x60", MEMORY_LIMIT: "200+0x60", EVICTS: "0+0x60", FORGETS: "0+0x60"}
REBALANCES = one("streammetrics_rebalances_total", instance=WORKER)
STANDSTILL = one("streammetrics_standstill_offset", instance=WORKER, topic="clicks", partition="3")
LETTERS_LOST = one("streammetrics_dead_letters_lost_total", instance=WORKER, topic="clicks")
REBUILDS = one("streammetrics_client_rebuilds_total", instance=WORKER)
SHOWN, LIMIT, FOLDED = one("streammetrics_series"), one("streammetrics_series_limit"), one("streammetrics_series_left_out")


def stalled(at: str = "") -> tuple[Fired]:
    return (
        fired(
            "critical",
            f"The numbers stand still{at}",
            "The lowest watermark of all tasks has not moved for a quarter of an hour. One input is not read, or its event time does not "
            "move. Idle inputs are ignored.",
        ),
    )


ABSENT = {
    "exporter": "No numbers are shown, and no alert about rankings or inputs can fire.",
    "worker": "Nothing is read, so the numbers stand still.",
}

PIPELINE = (
    Case(
        "StreammetricsAbsent",
        "for each missing part",
        {},
        "2m",
        tuple(
            fired(
                "critical",
                f"Prometheus sees no {part} of streammetrics",
                f'No {part} has series under job="streammetrics". {effect} Nothing is lost while Kafka keeps the records. '
                "No process responds.",
                part=part,
            )
            for part, effect in ABSENT.items()
        ),
    ),
    Case(
        "StreammetricsAbsent",
        "for the exporter alone",
        {SOURCE_UP: "1+0x20", one("up", instance=WORKER): "1+0x20", one("up"): "0+0x20"},
        "2m",
        (
            fired(
                "critical",
                "Prometheus sees no exporter of streammetrics",
                f'No exporter has series under job="streammetrics". {ABSENT["exporter"]} Nothing is lost while Kafka keeps the records. '
                "Processes that respond: worker:9464.",
                part="exporter",
            ),
        ),
    ),
    Case("StreammetricsAbsent", "not while both are there", {TASKS: "4+0x20", SOURCE_UP: "0+0x20"}, "20m"),
    Case("StreammetricsAbsent", "not for a restart", {TASKS: "4+0x5 stale 4+0x20", SOURCE_UP: "1+0x30"}, "7m"),
    Case(
        "StreammetricsTargetDown",
        "for a process that does not answer",
        {one("up"): "1+0x20", one("up", instance=WORKER): "0+0x20"},
        "2m",
        (
            fired(
                "warning",
                "worker:9464 cannot be scraped",
                "This process does not respond to Prometheus. If it was a worker, the other workers take over its tasks.",
                instance=WORKER,
            ),
        ),
    ),
    Case("StreammetricsTargetDown", "not for another job", {'up{job="node",instance="n:1"}': "0+0x20", one("up"): "1+0x20"}, "20m"),
    Case("StreammetricsTargetDown", "not for scrapes that fail for a minute", {one("up"): "1+0x5 0 0 1+0x20"}, "7m"),
    Case(
        "StreammetricsWatermarkStalled",
        "when the watermark does not move",
        {TASKS: "4+0x60", WATERMARK: "0+60x20 1200+0x40"},
        "45m",
        stalled(" at 1970-01-01 00:20:00 +0000 UTC"),
    ),
    Case(
        "StreammetricsWatermarkStalled",
        "when there is no watermark",
        {TASKS: "4+0x60"},
        "5m",
        stalled(),
    ),
    Case("StreammetricsWatermarkStalled", "not while idle inputs let it move", {TASKS: "4+0x60", WATERMARK: "0+60x60"}, "60m"),
    Case(
        "StreammetricsWatermarkStalled",
        "not while it moves slowly through a backlog",
        {TASKS: "4+0x60", WATERMARK: "0+0x9 60+0x9 120+0x9 180+0x9 240+0x20"},
        "45m",
    ),
    Case(
        "StreammetricsLagGrowing",
        "for a lag that is long and gets longer",
        {LAG_SECONDS: "0+30x60"},
        "30m",
        (
            fired(
                "warning",
                "Workers are 15m 0s behind, and the lag grows",
                "More events arrive than the workers read. Numbers are right, but late.",
            ),
        ),
    ),
    Case("StreammetricsLagGrowing", "not for a backlog that shrinks", {LAG_SECONDS: "3600-30x60"}, "60m"),
    Case("StreammetricsLagGrowing", "not while the backlog of an outage shrinks", {LAG_SECONDS: "0+0x20 7200-120x60"}, "45m"),
    Case("StreammetricsLagGrowing", "not for a short one", {LAG_SECONDS: "0+2x60"}, "60m"),
    Case(
        "StreammetricsPartitionStandsStill",
        "for a partition that does not move while all servers answer",
        {STANDSTILL: "_x5 17+0x60", STORE_UP_WORKER: "1+0x60", SOURCE_UP: "1+0x60"},
        "10m",
        (
            fired(
                "critical",
                "clicks [3] stands still at offset 17",
                "It has more records, and its worker commits none. Final numbers of all variants wait for it. /readyz of the worker says "
                "what holds it.",
                topic="clicks",
                partition="3",
            ),
        ),
    ),
    Case("StreammetricsPartitionStandsStill", "not while Redis is away", {STANDSTILL: "17+0x60", STORE_UP_WORKER: "0+0x60"}, "10m"),
    Case("StreammetricsPartitionStandsStill", "not while Kafka is away", {STANDSTILL: "17+0x60", SOURCE_UP: "0+0x60"}, "10m"),
    Case("StreammetricsPartitionStandsStill", "no longer when it moves", {STANDSTILL: "17+0x20 _x60", STORE_UP_WORKER: "1+0x60"}, "30m"),
    Case(
        "StreammetricsDeadLettersLost",
        "for letters that their topic refuses",
        {LETTERS_LOST: "0+0x10 4+0x60"},
        "20m",
        (
            fired(
                "warning",
                "The dead-letter topic refuses letters of clicks: 4 in the last hour",
                "These refused events are counted, but they are only in their input topic. The log of the worker has the offset of each "
                "and the reason.",
                topic="clicks",
            ),
        ),
    ),
    Case("StreammetricsDeadLettersLost", "no longer after an hour", {LETTERS_LOST: "0+0x10 4+0x120"}, "100m"),
    Case(
        "StreammetricsCommitsFailing",
        "for one in four that fails",
        {WRITTEN: "0+45x60", FAILED: "0+15x60"},
        "20m",
        (
            fired(
                "critical",
                "25% of the commits fail",
                "Events without a commit are not shown, and they are read again. Commits per second by status: failed 0.25 written 0.75.",
            ),
        ),
    ),
    Case(
        "StreammetricsCommitsFailing",
        "not for commits of a task that has a new owner",
        {WRITTEN: "0+45x60", FENCED: "0+15x60", FAILED: "0+1x60"},
        "60m",
    ),
    Case("StreammetricsCommitsFailing", "not while nothing is committed", {WRITTEN: "9+0x60", FAILED: "3+0x60"}, "60m"),
    Case(
        "StreammetricsRedisDown",
        "for the processes that get no answer",
        {STORE_UP: "1+0x9", STORE_UP_WORKER: "0+0x9"},
        "2m",
        (
            fired(
                "critical",
                "Processes of streammetrics that cannot use Redis: 1",
                "Redis does not answer them, or it refuses their writes, as with a full disk. Nothing is committed, and no new numbers are"
                " shown. Workers retry and lose nothing. /readyz of each has the reason. Affected: worker:9464.",
            ),
        ),
    ),
    Case("StreammetricsRedisDown", "not for a failover", {STORE_UP: "1+0x3 0 0 1+0x9", STORE_UP_WORKER: "1+0x3 0 0 1+0x9"}, "5m"),
    *(
        Case(
            "StreammetricsRedisAtRisk",
            says,
            {**SAFE, one("streammetrics_store_evicts", node="redis:6380"): "0+0x60", **series},
            "10m",
            (fired("warning", f"Redis at {NODE} puts state at risk: {risk}", description, risk=risk, node=NODE),),
        )
        for says, risk, series, description in (
            (
                "when it is nearly full",
                "memory",
                {MEMORY: "170+0x30"},
                "It uses 85% of its maxmemory. A full Redis refuses commits, and the numbers stand still.",
            ),
            (
                "when it may delete keys",
                "eviction",
                {EVICTS: "1+0x30"},
                "Its maxmemory-policy is not noeviction. When memory is full, it deletes state, and numbers become wrong.",
            ),
            (
                "when it is empty after a restart",
                "persistence",
                {FORGETS: "1+0x30"},
                "It has neither appendonly nor snapshots. After a restart all state is lost.",
            ),
        )
    ),
    Case("StreammetricsRedisAtRisk", "not with room in it", SAFE, "30m"),
    Case("StreammetricsRedisAtRisk", "not without a limit of memory", {**SAFE, MEMORY: "900+0x60", MEMORY_LIMIT: "0+0x60"}, "30m"),
    Case("StreammetricsRedisAtRisk", "not for a peak of some minutes", {**SAFE, MEMORY: "100+0x9 190+0x8 100+0x40"}, "30m"),
    Case(
        "StreammetricsKafkaDown",
        "for the workers that get no answer",
        {SOURCE_UP: "0+0x9"},
        "2m",
        (
            fired(
                "critical",
                "Kafka does not answer workers of streammetrics: 1",
                "Nothing is read. Workers retry and lose nothing. Affected: worker:9464.",
            ),
        ),
    ),
    Case("StreammetricsRedisDown", "no longer, ten minutes after it came back", {STORE_UP: "0+0x9 1+0x30"}, "21m"),
    Case("StreammetricsKafkaDown", "not for a change of leaders", {SOURCE_UP: "1+0x3 0 0 1+0x9"}, "5m"),
    Case(
        "StreammetricsReaderWaits",
        "for the workers whose inputs wait",
        {READERS_UP: "0+0x9"},
        "2m",
        (
            fired(
                "critical",
                "Inputs of streammetrics wait for their reader on workers: 1",
                "Their next record cannot be read yet, so they are paused. Nothing is lost. Affected: worker:9464.",
            ),
        ),
    ),
    Case("StreammetricsReaderWaits", "not for a restart of a registry", {READERS_UP: "1+0x3 0 0 1+0x9"}, "5m"),
    Case(
        "StreammetricsResultsFailing",
        "for a topic that takes no records",
        {RESULTS_FAILED: "0+0x10 1+2x60"},
        "40m",
        (
            fired(
                "warning",
                "Results cannot be sent to their topic: 10 tries failed in 5 minutes",
                "Each try has failed for a quarter of an hour. Tries go on. "
                "Nothing is lost while Redis keeps the panes, which is as long as the longest window. "
                "The page, series, verdicts and gates are right.",
            ),
        ),
    ),
    Case("StreammetricsResultsFailing", "not for a few tries that fail", {RESULTS_FAILED: "0+0x10 1+2x6 15+0x60"}, "30m"),
    Case("StreammetricsResultsFailing", "not for one try that fails now and then", {RESULTS_FAILED: "0+0x9 1+0x9 2+0x9 3+0x60"}, "40m"),
    Case(
        "StreammetricsRebalanceStorm",
        "for a worker whose tasks change every two minutes",
        {REBALANCES: "0+0.5x60"},
        "30m",
        (
            fired(
                "warning",
                "Tasks move between workers again and again: 8 times in 15 minutes",
                "So often the tasks of one worker changed. After each change up to a second of records is read again.",
            ),
        ),
    ),
    Case("StreammetricsRebalanceStorm", "not for a rollout", {REBALANCES: "0+0x10 1 2 3 4 4+0x60"}, "25m"),
    Case(
        "StreammetricsClientDeaf",
        "when a client was replaced while Kafka answered",
        {REBUILDS: "0+0x10 1+0x20", SOURCE_UP: "1+0x60"},
        "13m",
        (
            fired(
                "warning",
                "Kafka clients that stalled and were replaced in 30 minutes: 1",
                "Brokers answered and records were waiting, but a client returned none. A new client continues, and nothing is lost.",
            ),
        ),
    ),
    Case("StreammetricsClientDeaf", "not while Kafka itself was away", {REBUILDS: "0+0x10 1+0x20", SOURCE_UP: "1+0x8 0+0x3 1+0x60"}, "25m"),
    Case("StreammetricsClientDeaf", "no longer when it stays well", {REBUILDS: "0+0x10 1+0x60"}, "50m"),
    Case("StreammetricsClientDeaf", "not for a worker that restarts", {REBUILDS: "3+0x10 0+0x60"}, "30m"),
    *(
        Case(
            "StreammetricsSeriesLimit",
            says,
            series,
            "20m",
            (
                fired(
                    "warning",
                    f"/metrics has {count} series, and its limit is 5000",
                    "Label values over the limit are folded into _other, and series over the limit are left out. "
                    "/api/report has everything.",
                ),
            ),
        )
        for says, count, series in (
            ("when /metrics is nearly full", "4600", {SHOWN: "4600+0x30", LIMIT: "5000+0x30"}),
            ("when values of a label are folded", "400", {SHOWN: "400+0x30", LIMIT: "5000+0x30", FOLDED: "400+0x30"}),
        )
    ),
    Case("StreammetricsSeriesLimit", "not for a page with room", {SHOWN: "4400+0x30", LIMIT: "5000+0x30", FOLDED: "0+0x30"}, "20m"),
)

CASES = (*RANKING, *FALLEN, *ZERO_RESULTS, *INPUT, *PIPELINE)
