"""Panels of *Experiment* for its health: users, split, users in several variants, and the join."""

from __future__ import annotations

from grafana.panels import GREEN, ORANGE, RED, YELLOW, Block, Query, dashed, lines, number, of_query
from grafana.queries import ANY, EXPERIMENT, SCOPE, by, state, state_rate
from streammetrics.experiments.policy import Policy

POLICY = Policy()
_WHOLE = {"experiment": EXPERIMENT, "scope": SCOPE}


def health_numbers() -> tuple[Block, ...]:
    """Make the numbers at the top of the dashboard."""
    p, shared, unmatched = POLICY.sample_ratio_alpha, POLICY.multi_exposed_share_max, POLICY.unmatched_share_max
    entered = state("streammetrics_experiment_entered_timestamp_seconds")
    return (
        number(
            "Users",
            "Users who saw only one variant, summed over all variants.",
            "short",
            Query(by("sum", [], state("streammetrics_experiment_users", **_WHOLE)), "users"),
            empty="none",
            steps=((None, ORANGE), (2 * POLICY.min_users, GREEN)),
            width=3,
        ),
        number(
            "Sample ratio p-value",
            f"p-value of the split of users against the shares. Below {p:g} the experiment is invalid. Safe to check at any time.",
            "none",
            Query(state("streammetrics_experiment_srm_p_value", **_WHOLE), "p-value"),
            decimals=4,
            empty="not checked: no shares",
            steps=((None, RED), (p, GREEN)),
        ),
        number(
            "Users in several variants",
            f"Share of users who saw more than one variant. They are excluded. Above {100 * shared:g} % the experiment is invalid.",
            "percentunit",
            Query(_multi_exposed_share(), "share"),
            decimals=2,
            empty="unknown",
            steps=((None, GREEN), (shared / 2, YELLOW), (shared, RED)),
        ),
        number(
            "Feedback without a list",
            "Share of feedback of all traffic that counts for no list, now. If it is above "
            f"{100 * unmatched:g} % over the time of the experiment, the experiment is invalid.",
            "percentunit",
            Query(_unmatched_share(), "share"),
            decimals=1,
            empty="no feedback",
            steps=((None, GREEN), (unmatched / 2, YELLOW), (unmatched, RED)),
        ),
        number(
            "Delay",
            "Event time between now and the newest list in the experiments. Lists count after their full time for feedback.",
            "s",
            Query(f"time() - {entered}", "delay"),
            decimals=0,
            empty="no list yet",
            steps=((None, GREEN), (7_200, YELLOW), (21_600, RED)),
            width=3,
        ),
    )


def health_panels() -> tuple[Block, ...]:
    """Make the panels of curves."""
    return _users(), _shares(), _stages(), _lists()


def _users() -> Block:
    least = POLICY.effective_users_min
    return lines(
        "Users of each variant",
        "Users of each variant who saw only this variant and, with exposures, users whose first exposure was to it. Effective users "
        f"(dashed) are weighted by their lists. Below {least:g} of them a few users dominate, and there is no verdict.",
        "short",
        Query(state("streammetrics_experiment_users", **_WHOLE), "{{variant}}"),
        Query(state("streammetrics_experiment_exposed_users", **_WHOLE), "{{variant}}, exposed"),
        Query(state("streammetrics_experiment_effective_users", **_WHOLE), "{{variant}}, effective"),
        least=0,
        rules=(dashed("C"),),
        steps=((None, RED), (least, GREEN)),
        limits=True,
        empty="No users in this scope",
    )


def _shares() -> Block:
    return lines(
        "Split, users in several variants, and the largest user",
        f"The p-value of the split of users is safe to check at any time. Below {POLICY.sample_ratio_alpha:g} (dashed) the assignment or "
        "the tracking is wrong, and no comparison can be trusted. Right axis: the share of users who saw more than one variant, who are "
        "excluded, and the largest share of the lists of a variant that one user can have.",
        "none",
        Query(state("streammetrics_experiment_srm_p_value", **_WHOLE), "p-value"),
        Query(_multi_exposed_share(), "users in several variants"),
        Query(state("streammetrics_experiment_largest_user_share_max", **_WHOLE), "largest user of {{variant}}, at most"),
        least=0,
        rules=tuple(of_query(letter, unit="percentunit", custom__axisPlacement="right", custom__axisSoftMax=0.01) for letter in "BC"),
        steps=((None, RED), (POLICY.sample_ratio_alpha, GREEN)),
        limits=True,
        empty="No users in this scope",
    )


def _stages() -> Block:
    return lines(
        "Stages of a rollout",
        f"Users of each variant by stage, the p-value of each stage's split (right axis), and 1 for the stage that runs now. A p-value "
        f"below {POLICY.sample_ratio_alpha:g} divided by the number of stages makes the experiment invalid.",
        "short",
        Query(state("streammetrics_experiment_stage_users", **_WHOLE), "{{stage}} {{variant}}"),
        Query(state("streammetrics_experiment_stage_srm_p_value", **_WHOLE), "{{stage}} p-value"),
        Query(state("streammetrics_experiment_stage_current", **_WHOLE), "{{stage}} runs now"),
        least=0,
        rules=tuple(of_query(letter, custom__axisPlacement="right") for letter in "BC"),
        empty="No stages in this experiment",
        width=24,
        height=6,
    )


def _lists() -> Block:
    groups = {"experiment": EXPERIMENT, "variant": ANY}
    return lines(
        "Final lists per second",
        "Lists of each variant that became final, and those with feedback. The dashed line counts final lists left out because their user "
        "has too many, in all experiments. Labels are experiments and segments that a list lost because they are malformed or over a "
        "limit.",
        "cps",
        Query(state_rate("streammetrics_final_lists_total", **groups), "{{variant}}"),
        Query(state_rate("streammetrics_final_lists_with_feedback_total", **groups), "{{variant}}, with feedback"),
        Query(state_rate("streammetrics_experiment_lists_full_total", []), "left out"),
        Query(state_rate("streammetrics_experiment_lists_unstaged_total", []), "in no stage"),
        Query(state_rate("streammetrics_interleaving_too_many_teams_total", []), "too many teams"),
        Query(state_rate("streammetrics_labels_dropped_total", []), "labels dropped"),
        Query(state_rate("streammetrics_variants_as_text_total", []), "variants read as text"),
        least=0,
        rules=(dashed("C"),),
        empty="No final lists in this time range",
        width=24,
        height=6,
    )


def _multi_exposed_share() -> str:
    """Return the share of all users. The series of users counts only those with one variant."""
    several = state("streammetrics_experiment_multi_exposed_users", **_WHOLE)
    return f"{several} / ({by('sum', [], state('streammetrics_experiment_users', **_WHOLE))} + {several})"


def _all_feedback() -> str:
    matched, unmatched = state_rate("streammetrics_feedback_matched_total", []), state_rate("streammetrics_feedback_unmatched_total", [])
    return f"({matched} + {unmatched} > 0)"


def _unmatched_share() -> str:
    return f"{state_rate('streammetrics_feedback_unmatched_total', [])} / {_all_feedback()}"
