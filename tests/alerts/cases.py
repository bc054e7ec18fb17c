"""Of every alert: series for which it must fire, with its words, and series for which it must not. Pure data for `promtool test rules`.

Values are in promtool's notation: `0+5x20` counts 5 a step for 20 steps, `_` is no sample. A step is a minute unless the case says
otherwise. Times are those of the true rules, not shortened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JOB = "streammetrics"


@dataclass(frozen=True, slots=True)
class Fired:
    """One alert as it must come: its labels besides alertname, and its words."""

    severity: str
    labels: Mapping[str, str]
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class Case:
    """Series by their name with labels, looked at after `at`; `fires` is all that this alert may then say."""

    alert: str
    says: str
    series: Mapping[str, str]
    at: str
    fires: tuple[Fired, ...] = field(default=())
    step: str = "1m"


def one(name: str, **labels: str) -> str:
    """A series of the usual job and instance.

    >>> one("up", instance="a:1")
    'up{job="streammetrics",instance="a:1"}'
    """
    words = {"job": JOB, "instance": "exporter:9464", **labels}
    told = ",".join(f'{key}="{value}"' for key, value in words.items())
    return f"{name}{{{told}}}"


def fired(severity: str, summary: str, description: str, **labels: str) -> Fired:
    return Fired(severity, {"job": JOB, **labels}, summary, description)


# --- experiments

EXPERIMENT = {"experiment": "ranker", "scope": "start"}


def verdict(code: int | str, variant: str = "", metric: str = "", k: str = "", **labels: str) -> dict[str, str]:
    values = f"{code}+0x60" if isinstance(code, int) else code
    return {one("streammetrics_experiment_verdict", **{**EXPERIMENT, **labels}, variant=variant, metric=metric, k=k): values}


def of_experiment(name: str, value: str, variant: str = "", metric: str = "", k: str = "") -> dict[str, str]:
    return {one(f"streammetrics_experiment_{name}", **EXPERIMENT, variant=variant, metric=metric, k=k): f"{value}+0x60"}


def paging(metric: str = "ndcg", **labels: str) -> dict[str, str]:
    return {one("streammetrics_experiment_paging", **{**EXPERIMENT, **labels}, metric=metric, k="10"): "1+0x60"}


NDCG = ("treatment", "ndcg", "10")
MRR = ("treatment", "mrr", "10")
OF_TREATMENT = {"experiment": "ranker", "variant": "treatment", "scope": "start"}
REGRESSED_A_LITTLE = fired(
    "warning",
    "treatment of ranker certainly ranks worse than control",
    "Counted since it began, 1 of its paging measures are certainly worse than control by more than the tolerated margin.",
    **OF_TREATMENT,
)
REGRESSED_MUCH = fired(
    "critical",
    "treatment of ranker certainly ranks worse than control, by more than 5 %",
    "Counted since it began, its lift of at least one paging measure is certainly below -7%. Certain means at all looks together.",
    **OF_TREATMENT,
)

RANKING = (
    Case(
        "StreammetricsRankingRegressed",
        "critical and warning, for the worst lift, when it is certainly below the margin",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **of_experiment("judged_lift_upper", "-0.07", *NDCG),
            **of_experiment("judged_lift_upper", "-0.01", *MRR),
            **paging(),
            **paging("mrr"),
        },
        "5m",
        (REGRESSED_MUCH, REGRESSED_A_LITTLE),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "a warning only, when the drop may be small",
        {**verdict(-1), **verdict(-1, *NDCG), **of_experiment("judged_lift_upper", "-0.03", *NDCG), **paging()},
        "5m",
        (REGRESSED_A_LITTLE,),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "a warning, when the lift has no upper bound",
        {**verdict(-1), **verdict(-1, *NDCG), **verdict(0, *MRR), **paging()},
        "5m",
        (REGRESSED_A_LITTLE,),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "the measures of the day by their scope",
        {**verdict(-1, scope="day"), **verdict(-1, *NDCG, scope="day"), **verdict(0), **verdict(0, *NDCG), **paging(scope="day")},
        "5m",
        (
            fired(
                "warning",
                "treatment of ranker certainly ranks worse than control",
                "Counted since midnight UTC, 1 of its paging measures are certainly worse than control by more than the tolerated margin.",
                **{**OF_TREATMENT, "scope": "day"},
            ),
        ),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "once for two exporters",
        {
            **verdict(-1),
            **verdict(-1, instance="exporter-2:9464"),
            **verdict(-1, *NDCG),
            **verdict(-1, *NDCG, instance="exporter-2:9464"),
            **of_experiment("judged_lift_upper", "-0.07", *NDCG),
            **paging(),
            **paging(instance="exporter-2:9464"),
        },
        "5m",
        (REGRESSED_MUCH, REGRESSED_A_LITTLE),
    ),
    Case("StreammetricsRankingRegressed", "not before its time", {**verdict(-1), **verdict(-1, *NDCG), **paging()}, "4m"),
    Case(
        "StreammetricsRankingRegressed",
        "still, a while after the verdict went back",
        {**verdict("-1+0x9 0+0x40"), **verdict("-1+0x9 0+0x40", *NDCG), **paging()},
        "20m",
        (REGRESSED_A_LITTLE,),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "no more, a longer while after",
        {**verdict("-1+0x9 0+0x40"), **verdict("-1+0x9 0+0x40", *NDCG), **paging()},
        "26m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for a measure that pages nobody",
        {**verdict(0), **verdict(-1, *NDCG), **of_experiment("judged_lift_upper", "-0.07", *NDCG), **paging("mrr")},
        "30m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for a measure that pages nobody, of a variant beside one that regressed",
        {
            **verdict(-1),
            **verdict(-1, *NDCG),
            **verdict(-1, "other", "mrr", "10"),
            **of_experiment("judged_lift_upper", "-0.03", *NDCG),
            **of_experiment("judged_lift_upper", "-0.15", "other", "mrr", "10"),
            **paging(),
        },
        "30m",
        (REGRESSED_A_LITTLE,),
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for a drop of which nothing is certain",
        {**verdict(0), **verdict(0, *NDCG), **of_experiment("judged_lift_upper", "-0.07", *NDCG), **paging()},
        "30m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not in an experiment that is broken",
        {**verdict(-2), **verdict(-2, *NDCG), **of_experiment("judged_lift_upper", "-0.07", *NDCG), **paging()},
        "30m",
    ),
    Case(
        "StreammetricsRankingRegressed",
        "not for what is safe or improved",
        {**verdict(1), **verdict(1, *NDCG), **verdict(2, *MRR), **of_experiment("judged_lift_upper", "0.02", *NDCG), **paging()},
        "30m",
    ),
    Case(
        "StreammetricsSampleRatioMismatch",
        "for a split that is not by chance",
        {**verdict(-2), **of_experiment("srm_p_value", "0.001")},
        "10m",
        (
            fired(
                "warning",
                "Users of ranker are not split as they should be",
                "Counted since it began, such a split comes by chance with p = 0.001. Its verdicts are invalid, and nothing of it pages.",
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
        "StreammetricsMultiExposure",
        "for too many users in two variants",
        {
            **verdict(-2),
            **of_experiment("multi_exposed_users", "50"),
            **of_experiment("users", "450", "control"),
            **of_experiment("users", "500", "treatment"),
        },
        "10m",
        (
            fired(
                "warning",
                "5% of the users of ranker saw more than one variant",
                "Counted since it began. They are excluded; so many make the experiment invalid, and nothing of it pages.",
                **EXPERIMENT,
            ),
        ),
    ),
    Case(
        "StreammetricsMultiExposure",
        "not for one in a hundred",
        {
            **verdict(-2),
            **of_experiment("multi_exposed_users", "10"),
            **of_experiment("users", "490", "control"),
            **of_experiment("users", "500", "treatment"),
        },
        "30m",
    ),
    Case(
        "StreammetricsExperimentInvalid",
        "for an experiment that nothing else explains",
        verdict(-2),
        "30m",
        (
            fired(
                "warning",
                "Nothing may be read from ranker",
                "Counted since it began, its verdict is invalid, for a reason that no other alert tells. Nothing of it pages meanwhile.",
                **EXPERIMENT,
            ),
        ),
    ),
    Case("StreammetricsExperimentInvalid", "not for a regression", {**verdict(-1), **verdict(-1, *NDCG)}, "60m"),
)

# --- all variants together: 5 minutes a step, 2,016 steps a week

LISTS = one("streammetrics_final_lists_total", experiment="", variant="")
SUM = one("streammetrics_final_ndcg_sum_total", experiment="", variant="", k="10")
FELL_SUMMARY = "Ranking quality of all traffic fell to a mean ndcg@10 of 0.240"


def fell(drop: str) -> str:
    return (
        "The final lists of the last hour are worse than those of the same hour yesterday and last week (0.400), "
        f"by more than {drop}. No single variant explains it."
    )


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
        "as a warning, when it is a little worse; yesterday alone does in the first week",
        {LISTS: "0+50x400", SUM: "0+20x310 6217+17x60"},
        "1655m",
        (
            fired(
                "warning",
                "Ranking quality of all traffic fell to a mean ndcg@10 of 0.340",
                fell("10 %"),
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
        "not within an hour of a regression that explains it",
        {
            LISTS: "0+50x400",
            SUM: "0+20x310 6212+12x60",
            **verdict("0+0x310 -1+0x10 0+0x60"),
            **verdict("0+0x310 -1+0x10 0+0x60", *NDCG),
            **dict.fromkeys(paging(), "1+0x400"),
        },
        "1655m",
        step="5m",
    ),
    Case("StreammetricsAllVariantsFell", "not on the first day", {LISTS: "0+50x200", SUM: "0+20x100 2010+5x60"}, "700m", step="5m"),
)

# --- what comes in

EVENTS = one("streammetrics_events_total", topic="impressions")
MATCHED = one("streammetrics_feedback_matched_total", topic="feedback")
ORPHANS = one("streammetrics_feedback_unmatched_total", topic="feedback", reason="orphan")
TOO_OLD = one("streammetrics_feedback_unmatched_total", topic="feedback", reason="too_old")
LATE = one("streammetrics_dropped_total", topic="impressions", reason="late")
LAG = one("streammetrics_lag_records", instance="worker:9464", topic="impressions", partition="0")

COMING_IN = (
    Case(
        "StreammetricsJoinUnhealthy",
        "when half of the feedback matches nothing",
        {MATCHED: "0+60x90", ORPHANS: "0+48x90", TOO_OLD: "0+12x90"},
        "60m",
        (
            fired(
                "warning",
                "50% of the feedback counts for no list",
                "Lists look worse than they are, in every variant. By reason, in events a second: orphan 0.8 too_old 0.2.",
            ),
        ),
    ),
    Case("StreammetricsJoinUnhealthy", "not for a fifth", {MATCHED: "0+80x90", ORPHANS: "0+20x90"}, "90m"),
    Case("StreammetricsJoinUnhealthy", "not for a handful", {MATCHED: "0+1x90", ORPHANS: "0+2x90"}, "90m"),
    Case(
        "StreammetricsNoTraffic",
        "for a topic that went silent where there was traffic a week ago, and not for the other",
        {EVENTS: "0+60x2000 120000+0x60", EVENTS.replace("impressions", "feedback"): "0+60x2060", LAG: "0+0x2060"},
        "10150m",
        (
            fired(
                "critical",
                "No events come on topic impressions",
                "Nothing has come for a quarter of an hour, nothing is waiting to be read, and a week ago there was traffic at this time.",
                topic="impressions",
            ),
        ),
        step="5m",
    ),
    Case(
        "StreammetricsNoTraffic",
        "a warning only, as long as nobody knows what was a week ago",
        {EVENTS: "0+60x30 1800+0x60", EVENTS.replace("impressions", "feedback"): "0+60x90", LAG: "0+0x90"},
        "60m",
        (
            fired(
                "warning",
                "No events come on topic impressions",
                "Nothing has come for a quarter of an hour, and nothing is waiting to be read. A week ago nothing was measured, so nobody "
                "knows whether this is usual.",
                topic="impressions",
            ),
        ),
    ),
    Case("StreammetricsNoTraffic", "not for a short silence", {EVENTS: "0+60x30 1800+0x12 1800+60x30", LAG: "0+0x90"}, "60m"),
    Case("StreammetricsNoTraffic", "not while records wait to be read", {EVENTS: "0+60x30 1800+0x60", LAG: "5+9x90"}, "60m"),
    Case(
        "StreammetricsNoTraffic",
        "not in a night that was as silent a week ago",
        {EVENTS: "0+0x100 0+60x1900 114000+0x300", LAG: "0+0x2300"},
        "10290m",
        step="5m",
    ),
    Case(
        "StreammetricsEventsRefused",
        "for one event in twenty, told as often by two exporters as by one",
        {
            **{EVENTS: "0+60x60", LATE: "0+3x60"},
            **{each.replace("exporter:9464", "exporter-2:9464"): times for each, times in ((EVENTS, "0+60x60"), (LATE, "0+3x60"))},
        },
        "40m",
        (
            fired(
                "warning",
                "5% of the events are refused",
                "They are counted, and most are in the dead-letter topic, but they are in no number. "
                "By reason, in events a second: late 0.05.",
            ),
        ),
    ),
    Case("StreammetricsEventsRefused", "not for one in two hundred", {EVENTS: "0+200x60", LATE: "0+1x60"}, "60m"),
    Case("StreammetricsEventsRefused", "not for a handful", {EVENTS: "0+4x60", LATE: "0+1x60"}, "60m"),
)

# --- the pipeline

TASKS = one("streammetrics_tasks")
WORKER = "worker:9464"
STORE_UP, STORE_UP_WORKER = one("streammetrics_store_up"), one("streammetrics_store_up", instance=WORKER)
SOURCE_UP = one("streammetrics_source_up", instance=WORKER)
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
REBUILDS = one("streammetrics_client_rebuilds_total", instance=WORKER)
SHOWN, LIMIT, FOLDED = one("streammetrics_series"), one("streammetrics_series_limit"), one("streammetrics_series_left_out")
STALLED = (
    fired(
        "critical",
        "The shown numbers stand still",
        "The time up to which all tasks have come has not moved for a quarter of an hour: some input holds the watermark. "
        "Quiet inputs do not; events that are not read, or whose time stands still, do.",
    ),
)

PIPELINE = (
    Case(
        "StreammetricsAbsent",
        "for each part that is not seen",
        {},
        "5m",
        tuple(
            fired(
                "critical",
                f"No {part} of streammetrics is seen",
                f'Prometheus has no series of any {part} under job="streammetrics". Nothing is measured and nothing else can page.',
                part=part,
            )
            for part in ("exporter", "worker")
        ),
    ),
    Case(
        "StreammetricsAbsent",
        "for the exporter alone",
        {SOURCE_UP: "1+0x20"},
        "5m",
        (
            fired(
                "critical",
                "No exporter of streammetrics is seen",
                'Prometheus has no series of any exporter under job="streammetrics". Nothing is measured and nothing else can page.',
                part="exporter",
            ),
        ),
    ),
    Case("StreammetricsAbsent", "not while both are seen", {TASKS: "4+0x20", SOURCE_UP: "0+0x20"}, "20m"),
    Case("StreammetricsAbsent", "not for a restart", {TASKS: "4+0x5 stale _x3 4+0x20", SOURCE_UP: "1+0x30"}, "9m"),
    Case(
        "StreammetricsTargetDown",
        "for a process that does not answer",
        {one("up"): "1+0x20", one("up", instance=WORKER): "0+0x20"},
        "5m",
        (
            fired(
                "warning",
                "worker:9464 cannot be scraped",
                "Prometheus knows this process and gets no answer from it. If it was a worker, others have taken over its tasks.",
                instance=WORKER,
            ),
        ),
    ),
    Case("StreammetricsTargetDown", "not for another job", {'up{job="node",instance="n:1"}': "0+0x20", one("up"): "1+0x20"}, "20m"),
    Case("StreammetricsTargetDown", "not for scrapes that fail for some minutes", {one("up"): "1+0x5 0+0x3 1+0x20"}, "9m"),
    Case(
        "StreammetricsWatermarkStalled",
        "when the tasks are where they were",
        {TASKS: "4+0x60", WATERMARK: "0+60x20 1200+0x40"},
        "45m",
        STALLED,
    ),
    Case(
        "StreammetricsWatermarkStalled",
        "when the tasks have never come to a time",
        {TASKS: "4+0x60"},
        "5m",
        STALLED,
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
                "Records are read 15m 0s late, and later and later",
                "More comes in than the workers take. Numbers stay right and get older.",
            ),
        ),
    ),
    Case("StreammetricsLagGrowing", "not for a backlog that is worked off", {LAG_SECONDS: "3600-30x60"}, "60m"),
    Case("StreammetricsLagGrowing", "not after an outage, while it is made up for", {LAG_SECONDS: "0+0x20 7200-120x60"}, "45m"),
    Case("StreammetricsLagGrowing", "not for a short one", {LAG_SECONDS: "0+2x60"}, "60m"),
    Case(
        "StreammetricsCommitsFailing",
        "for one in four that fails",
        {WRITTEN: "0+45x60", FAILED: "0+15x60"},
        "20m",
        (
            fired(
                "critical",
                "25% of the commits fail",
                "What is not committed is shown nowhere and is read again. By status, in commits a second: failed 0.25 written 0.75.",
            ),
        ),
    ),
    Case(
        "StreammetricsCommitsFailing",
        "not for those that lost their task",
        {WRITTEN: "0+45x60", FENCED: "0+15x60", FAILED: "0+1x60"},
        "60m",
    ),
    Case("StreammetricsCommitsFailing", "not while nothing is committed", {WRITTEN: "9+0x60", FAILED: "3+0x60"}, "60m"),
    Case(
        "StreammetricsRedisDown",
        "for the processes that it does not serve",
        {STORE_UP: "1+0x9", STORE_UP_WORKER: "0+0x9"},
        "2m",
        (
            fired(
                "critical",
                "Redis does not serve 1 processes of streammetrics",
                "Nothing is committed or shown anew; workers keep trying and lose nothing. PipelinedReads in vain by worker:9464.",
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
            (fired("warning", f"Redis at {NODE} is a risk to state, by its {risk}", description, risk=risk, node=NODE),),
        )
        for says, risk, series, description in (
            (
                "when it is nearly full",
                "memory",
                {MEMORY: "170+0x30"},
                "It uses 85% of its maxmemory; when that is full, commits are refused and numbers stand still.",
            ),
            (
                "when it may delete keys",
                "eviction",
                {EVICTS: "1+0x30"},
                "Its maxmemory-policy is not noeviction: when memory is short it deletes sessions and tallies, and numbers are wrong.",
            ),
            (
                "when it keeps nothing over a restart",
                "persistence",
                {FORGETS: "1+0x30"},
                "It has neither appendonly nor snapshots: when it restarts, all state is lost.",
            ),
        )
    ),
    Case("StreammetricsRedisAtRisk", "not with room in it", SAFE, "30m"),
    Case("StreammetricsRedisAtRisk", "not without a limit of memory", {**SAFE, MEMORY: "900+0x60", MEMORY_LIMIT: "0+0x60"}, "30m"),
    Case("StreammetricsRedisAtRisk", "not for a peak of some minutes", {**SAFE, MEMORY: "100+0x9 190+0x8 100+0x40"}, "30m"),
    Case(
        "StreammetricsKafkaDown",
        "for the workers that it does not serve",
        {SOURCE_UP: "0+0x9"},
        "2m",
        (
            fired(
                "critical",
                "Kafka does not serve 1 workers of streammetrics",
                "Nothing is read; workers keep trying and lose nothing. PipelinedReads in vain by worker:9464.",
            ),
        ),
    ),
    Case("StreammetricsRedisDown", "no more, a while after it came back", {STORE_UP: "0+0x9 1+0x30"}, "21m"),
    Case("StreammetricsKafkaDown", "not for a change of leaders", {SOURCE_UP: "1+0x3 0 0 1+0x9"}, "5m"),
    Case(
        "StreammetricsRebalanceStorm",
        "for a worker whose tasks change every two minutes",
        {REBALANCES: "0+0.5x60"},
        "30m",
        (
            fired(
                "warning",
                "Tasks change hands again and again",
                "A worker's tasks changed 7.5 times within a quarter of an hour. Each change costs reading a second again.",
            ),
        ),
    ),
    Case("StreammetricsRebalanceStorm", "not for a rollout", {REBALANCES: "0+0x10 1 2 3 4 4+0x60"}, "25m"),
    Case(
        "StreammetricsClientDeaf",
        "when a client was replaced while Kafka served",
        {REBUILDS: "0+0x10 1+0x20", SOURCE_UP: "1+0x60"},
        "13m",
        (
            fired(
                "warning",
                "A Kafka client went deaf and was replaced",
                "Brokers answered and records waited, but the client brought none. "
                "The replacement goes on where it stood; nothing is lost.",
            ),
        ),
    ),
    Case("StreammetricsClientDeaf", "not while Kafka itself was away", {REBUILDS: "0+0x10 1+0x20", SOURCE_UP: "1+0x8 0+0x3 1+0x60"}, "25m"),
    Case("StreammetricsClientDeaf", "no more when it stays well", {REBUILDS: "0+0x10 1+0x60"}, "50m"),
    Case("StreammetricsClientDeaf", "not for a worker that starts anew", {REBUILDS: "3+0x10 0+0x60"}, "30m"),
    *(
        Case(
            "StreammetricsSeriesLimit",
            says,
            series,
            "20m",
            (
                fired(
                    "warning",
                    "The page has as many series as it may have, or nearly",
                    "Variants, segments or cut-offs beyond the limits are folded into _other or left out of /metrics; "
                    "the report has them all.",
                ),
            ),
        )
        for says, series in (
            ("when the page is nearly full", {SHOWN: "4600+0x30", LIMIT: "5000+0x30"}),
            ("when values of a label are folded", {SHOWN: "400+0x30", LIMIT: "5000+0x30", FOLDED: "400+0x30"}),
        )
    ),
    Case("StreammetricsSeriesLimit", "not for a page with room", {SHOWN: "4400+0x30", LIMIT: "5000+0x30", FOLDED: "0+0x30"}, "20m"),
)

CASES = (*RANKING, *FALLEN, *COMING_IN, *PIPELINE)
