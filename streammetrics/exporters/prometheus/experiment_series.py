"""The series of experiments and of interleaved teams."""

from __future__ import annotations

from collections.abc import Iterator

from streammetrics.exporters.prometheus.family import Series, bounds, gauge

_MEASURE_LABELS = ("experiment", "variant", "metric", "k", "scope")
_TEAM_LABELS = ("experiment", "team", "against", "scope")


def experiment_gauges() -> Iterator[Series]:
    """Gauges of experiments. `experiment_rows` makes their rows; labels without a value are left out."""
    yield from _measure_gauges()
    yield from _user_gauges()
    yield from _team_gauges()
    yield gauge("experiment_entered_timestamp_seconds", "Event time up to which all final lists count in the experiments.", unit="seconds")


_OF_LIFT = "of the lift, at 95 % confidence by default. Safe to check at any time."
_CUPED = "With CUPED: variance reduced by the users' earlier behaviour."


def _measure_gauges() -> Iterator[Series]:
    mean = "Mean of a measure over the final lists (or users) of a variant."
    lift = "Relative difference between the variant's mean and the control's."
    yield gauge("experiment_mean", mean, *_MEASURE_LABELS)
    yield gauge("experiment_lift", lift, *_MEASURE_LABELS)
    yield from bounds("experiment_lift", _OF_LIFT, *_MEASURE_LABELS)
    yield gauge(
        "experiment_verdict",
        "Verdict: 2 improved, 1 safe, 0 inconclusive, -1 regressed, -2 invalid, -3 mixed. "
        "The whole experiment's has no variant, metric and k.",
        *_MEASURE_LABELS,
    )
    yield gauge("experiment_reduced_mean", f"{mean} {_CUPED}", *_MEASURE_LABELS)
    yield gauge("experiment_reduced_lift", f"{lift} {_CUPED}", *_MEASURE_LABELS)
    yield from bounds("experiment_reduced_lift", f"{_OF_LIFT} {_CUPED}", *_MEASURE_LABELS)
    yield gauge(
        "experiment_judged_lift_upper",
        "The upper bound that decides the verdict of a paging measure: lift_upper, or with cuped_verdict reduced_lift_upper. "
        "For measures that get better when they fall, the upper bound of minus the lift.",
        *_MEASURE_LABELS,
    )
    yield gauge("experiment_variance_reduction", "Share of the variance of the variant's mean that CUPED removes.", *_MEASURE_LABELS)


def _user_gauges() -> Iterator[Series]:
    """The gauges of whole experiments and of the users of their variants."""
    yield gauge("experiment_paging", "1 for each measure that decides the verdict and may page.", "experiment", "metric", "k", "scope")
    yield gauge(
        "experiment_gate",
        "Gate of a rollout: 1 pass, 0 wait, -1 fail. The whole experiment's has no variant. It counts only while the watermark is recent.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_warning",
        "1 for each thing that bends the numbers of an experiment or withholds its verdict. The page says it in a sentence.",
        "experiment",
        "variant",
        "scope",
        "warning",
    )
    yield gauge(
        "experiment_running",
        "1 while new lists can change the verdict. 0: the variant or its control has stopped, the experiment is silent, or it has ended. "
        "The whole experiment's has no variant.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_last_list_timestamp_seconds",
        "Event time of the last list of a variant. The whole experiment's has no variant.",
        "experiment",
        "variant",
        "scope",
        unit="seconds",
    )
    yield gauge("experiment_users", "Users who saw this variant.", "experiment", "variant", "scope")
    yield gauge(
        "experiment_exposed_users",
        "Users whose first exposure was to this variant, whether they saw a list or not. Absent without exposures.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_effective_users",
        "Users of a variant, weighted by their lists: few if a few users have most lists.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_largest_user_share_max",
        "Largest share of a variant's lists that one user can have.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_srm_p_value",
        "p-value of the sample ratio check: is the split of users as configured? Absent without configured shares. "
        "Safe to check at any time.",
        "experiment",
        "scope",
    )


def _team_gauges() -> Iterator[Series]:
    won = "Share of interleaved lists that a team won, minus the share that it lost against the other team."
    yield gauge("interleaving_credit", won, *_TEAM_LABELS)
    yield from bounds("interleaving_credit", "of the credit, at 95 % confidence by default. Safe to check at any time.", *_TEAM_LABELS)
    yield gauge("interleaving_users", "Users of the interleaved lists that compare both teams.", *_TEAM_LABELS)
    yield gauge("interleaving_lists", "Interleaved lists that compare both teams.", *_TEAM_LABELS)
    verdict = "Verdict: 2 preferred, 0 inconclusive, -1 the other team is preferred, -2 invalid."
    yield gauge("interleaving_verdict", verdict, *_TEAM_LABELS)
