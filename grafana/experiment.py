"""The dashboard *Experiment*: did the change help or hurt, how sure is that, and can the experiment be read at all."""

from __future__ import annotations

from grafana import variables
from grafana.house import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    YELLOW,
    Block,
    Query,
    Section,
    build,
    dashed,
    fixed,
    lines,
    listing,
    mapping,
    number,
    of_field,
    of_pattern,
    states,
    words,
)
from grafana.queries import ANY, EXPERIMENT, METRIC, NONE, ONE_K, SCOPE, VARIANT, by, state, state_rate
from grafana.sdk import dashboard
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.verdict import VERDICT_CODES, Word

UID = "streammetrics-experiment"

_SAID: dict[Word, tuple[str, str]] = {
    "regressed": ("worse", RED),
    "invalid": ("broken", ORANGE),
    "inconclusive": ("not known yet", GREY),
    "safe": ("not worse", BLUE),
    "improved": ("better", GREEN),
}
VERDICTS = {str(VERDICT_CODES[word]): said for word, said in _SAID.items()}
"""Codes as words with colours."""

POLICY = Policy()
_TOO_FEW = f"Nothing is shown before every variant has users enough (by default {POLICY.min_users})."
_ONE = {"experiment": EXPERIMENT, "metric": METRIC, "k": ONE_K, "scope": SCOPE}
_WHOLE = {"experiment": EXPERIMENT, "scope": SCOPE}

_HOW_TO_READ = f"""\
| word | what it means | what to do |
|---|---|---|
| **worse** | the variant is certainly worse than the control, by more than is tolerated | stop it |
| **not worse** | certainly not worse by more than is tolerated | it does no harm |
| **better** | certainly better than the control | ship it |
| **not known yet** | the users so far do not tell | wait |
| **broken** | the split, the assignment or the join is wrong: no number here can be trusted | mend that first |

*Certainly*: at {100 * (1 - POLICY.alpha):g} % by default, **however often you look**: stop as soon as the word is there.
*Change* is against the control; the truth lies between *at worst* and *at best*. A verdict counts users, not lists.
"""


def experiment() -> dashboard.Dashboard:
    """The whole dashboard."""
    return build(
        uid=UID,
        title="streammetrics / Experiment",
        description="Variants side by side: verdicts that hold however often one looks, and whether the experiment can be read at all.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.experiment(),
            variables.variant("treatment"),
            variables.measured_metric(),
            variables.measured_k(),
            variables.scope(),
        ],
        annotations=variables.marks(),
        since="now-24h",
        sections=[
            Section(title="Verdict", blocks=(_verdict(), *_health_numbers(), _table(), _reading())),
            Section(title="$metric at $k", blocks=(_lift(), _mean(), _verdicts_over_time())),
            Section(title="Less variance, and interleaved lists", blocks=(_reduced(), _preference_table(), _preference())),
            Section(title="Can it be read?", blocks=(_users(), _shares(), _sample_ratio(), _multi_exposed(), _join(), _lists())),
        ],
    )


def _verdict() -> Block:
    return number(
        "Verdict on $experiment",
        "The word for the whole experiment: broken when it cannot be read, else the worst word among the measures that decide.",
        "none",
        Query(state("streammetrics_experiment_verdict", variant=NONE, metric=NONE, k=NONE, **_WHOLE), "verdict"),
        words=VERDICTS,
        empty="No such experiment in this span",
        filled=True,
        width=6,
    )


def _health_numbers() -> tuple[Block, ...]:
    p, shared, unmatched = POLICY.sample_ratio_alpha, POLICY.multi_exposed_share_max, POLICY.unmatched_share_max
    entered = state("streammetrics_experiment_entered_timestamp_seconds")
    return (
        number(
            "Users",
            "Users who saw one variant only, all variants together.",
            "short",
            Query(by("sum", [], state("streammetrics_experiment_users", **_WHOLE)), "users"),
            empty="none",
            steps=((None, ORANGE), (2 * POLICY.min_users, GREEN)),
            width=3,
        ),
        number(
            "Even split by chance",
            f"How likely so uneven a split of users is if the assignment works. Below {p:g} the experiment is broken. Holds at every look.",
            "none",
            Query(state("streammetrics_experiment_srm_p_value", **_WHOLE), "p-value"),
            decimals=4,
            empty="unknown",
            steps=((None, RED), (p, GREEN)),
        ),
        number(
            "Users in several variants",
            f"Share of users who saw more than one variant; they are left out. Above {100 * shared:g} % the experiment is broken.",
            "percentunit",
            Query(_multi_exposed_share(), "share"),
            decimals=2,
            empty="unknown",
            steps=((None, GREEN), (shared / 2, YELLOW), (shared, RED)),
        ),
        number(
            "Feedback without a list",
            "Share of feedback that counts for no list, of all traffic, now. Where it is above "
            f"{100 * unmatched:g} % on the experiment's days, the experiment is broken.",
            "percentunit",
            Query(_unmatched_share(), "share"),
            decimals=1,
            empty="no feedback",
            steps=((None, GREEN), (unmatched / 2, YELLOW), (unmatched, RED)),
        ),
        number(
            "Behind by",
            "How long before now the lists of the experiments end, in event time: each gets its full time to earn feedback first.",
            "s",
            Query(f"time() - {entered}", "behind"),
            decimals=0,
            empty="no list yet",
            steps=((None, GREEN), (7_200, YELLOW), (21_600, RED)),
            width=3,
        ),
    )


def _table() -> Block:
    """A row a variant and measure: the word, then the numbers behind it."""
    told = state("streammetrics_experiment_verdict", variant=VARIANT, metric=ANY, **_WHOLE)
    mean = state("streammetrics_experiment_mean", variant=VARIANT, **_WHOLE)
    roles = state("streammetrics_variant_info", experiment=EXPERIMENT, role='="control"')
    of_control = by("max", ["metric", "k"], f"{state('streammetrics_experiment_mean', **_WHOLE)} * on (variant) group_left () {roles}")
    users = state("streammetrics_experiment_users", variant=VARIANT, **_WHOLE)
    more = "/d/streammetrics-ranking?var-datasource=${datasource}&var-job=${job}&var-experiment=${experiment}"
    return listing(
        "Every measure against the control",
        "One row a variant and measure, the worst first. Change, at worst and at best are relative to the control and hold however "
        "often one looks. An end that the data do not bound is empty. The measures that decide share the error that is allowed; each "
        "other one has it alone, so of many some word is wrong by chance.",
        {
            "variant": "Variant",
            "metric": "Measure",
            "k": "First k",
            "A": "Verdict",
            "H": "Decides",
            "B": "Change",
            "C": "At worst",
            "D": "At best",
            "E": "Variant's mean",
            "F": "Control's mean",
            "G": "Users",
        },
        Query(told),
        *(Query(state(f"streammetrics_experiment_{name}", variant=VARIANT, **_WHOLE)) for name in ("lift", "lift_lower", "lift_upper")),
        Query(f"{mean} and {told}"),
        Query(f"0 * {told} + on (metric, k) group_left () {of_control}"),
        Query(f"0 * {told} + on (variant) group_left () {users}"),
        Query(f"0 * {told} + on (metric, k) group_left () {state('streammetrics_experiment_paging', **_WHOLE)}"),
        sort=("Change", False),
        rules=(
            of_field("Verdict", mappings=[mapping(VERDICTS)], custom__cellOptions={"type": "color-background", "mode": "basic"}),
            of_field("Decides", mappings=[mapping({"1": ("yes", BLUE)})]),
            of_field("Change", unit="percentunit", decimals=2),
            of_pattern("/^At /", unit="percentunit", decimals=2),
            of_pattern("/ mean$/", unit="none", decimals=4),
            of_field("Users", unit="short"),
            of_field(
                "Variant",
                links=[
                    {
                        "title": "Ranking quality of ${__data.fields.Variant}",
                        "url": more + "&var-variant=${__data.fields.Variant}&var-metric=${__data.fields.Measure}&${__url_time_range}",
                    }
                ],
            ),
        ),
        empty=_TOO_FEW,
        width=16,
        height=12,
    )


def _reading() -> Block:
    return words("How to read this", "What the words of the verdicts mean.", _HOW_TO_READ, width=8, height=12)


def _lift() -> Block:
    queries = {"change": "lift", "at best": "lift_upper", "at worst": "lift_lower"}
    return lines(
        "Change of $variant against the control",
        "Relative difference of $metric at $k to the control, with the band in which the truth lies. The band is valid at every "
        "glance, so it may be watched as it narrows. Above 0 is better; dashed is the drop that is tolerated by default.",
        "percentunit",
        *(Query(state(f"streammetrics_experiment_{name}", variant=VARIANT, **_ONE), legend) for legend, name in queries.items()),
        rules=(
            of_field("change", custom__lineWidth=2, color=fixed(BLUE)),
            of_field("at best", custom__fillBelowTo="at worst", custom__lineWidth=0, custom__fillOpacity=15, color=fixed(BLUE)),
            of_field("at worst", custom__lineWidth=0, color=fixed(BLUE)),
        ),
        steps=((None, RED), (-POLICY.margin, "transparent")),
        limits=True,
        empty=f"The control has no change. Of others: {_TOO_FEW}",
        repeat="variant",
        width=24,
        height=9,
    )


def _reduced() -> Block:
    """A row a variant and measure of an experiment with a time before it."""
    told = state("streammetrics_experiment_reduced_lift", variant=VARIANT, **_WHOLE)
    return listing(
        "With the variance reduced (CUPED)",
        "The same comparison after what users did before the experiment is taken out, for experiments with cuped_days. Verdicts go by "
        "the plain numbers unless cuped_verdict is set: judged at best is the end that they go by, of the measures that decide.",
        {
            "variant": "Variant",
            "metric": "Measure",
            "k": "First k",
            "A": "Change",
            "B": "At worst",
            "C": "At best",
            "D": "Variant's mean",
            "E": "Variance removed",
            "F": "Judged at best",
        },
        Query(told),
        *(Query(state(f"streammetrics_experiment_reduced_{name}", variant=VARIANT, **_WHOLE)) for name in ("lift_lower", "lift_upper")),
        *(
            Query(f"{state(f'streammetrics_experiment_{name}', variant=VARIANT, **_WHOLE)} and {told}")
            for name in ("reduced_mean", "variance_reduction", "judged_lift_upper")
        ),
        sort=("Change", False),
        rules=(
            of_field("Change", unit="percentunit", decimals=2),
            of_pattern("/^At | at best$/", unit="percentunit", decimals=2),
            of_pattern("/ mean$/", unit="none", decimals=4),
            of_field("Variance removed", unit="percentunit", decimals=1),
        ),
        empty="This experiment has no cuped_days",
        width=24,
        height=8,
    )


def _preference_table() -> Block:
    names = ("verdict", "credit", "credit_lower", "credit_upper", "users", "lists")
    return listing(
        "Which ranker people prefer",
        "One row a team of interleaved lists. Mean credit is lists won less lists lost, by lists; its bounds hold at every look.",
        {
            "team": "Team",
            "against": "Against",
            "A": "Verdict",
            "B": "Mean credit",
            "C": "At least",
            "D": "At most",
            "E": "Users",
            "F": "Lists",
        },
        *(Query(state(f"streammetrics_interleaving_{name}", **_WHOLE)) for name in names),
        sort=("Mean credit", False),
        rules=(
            of_field("Verdict", mappings=[mapping(VERDICTS)], custom__cellOptions={"type": "color-background", "mode": "basic"}),
            of_pattern("/^(Mean credit|At least|At most)$/", unit="none", decimals=4),
            of_pattern("/^(Users|Lists)$/", unit="short"),
        ),
        empty="This experiment has no interleaved lists",
        width=12,
        height=8,
    )


def _preference() -> Block:
    legends = {"credit": "{{team}}", "credit_upper": "{{team}} at most", "credit_lower": "{{team}} at least"}
    return lines(
        "Mean credit over time",
        "Lists won less lists lost, by lists, of each team against the control, with the bounds in which the truth lies at every look.",
        "none",
        *(Query(state(f"streammetrics_interleaving_{name}", **_WHOLE), legend) for name, legend in legends.items()),
        decimals=4,
        empty="This experiment has no interleaved lists",
        width=12,
        height=8,
    )


def _mean() -> Block:
    return lines(
        "Mean of every variant",
        "$metric at $k over all final lists of the span (of user_ measures: over users), the control included.",
        "none",
        Query(state("streammetrics_experiment_mean", **_ONE), "{{variant}}"),
        decimals=4,
        empty=_TOO_FEW,
    )


def _verdicts_over_time() -> Block:
    return states(
        "Verdicts over time",
        "The verdict on $metric at $k as it was. A word may change: it says what the data of then supported.",
        Query(state("streammetrics_experiment_verdict", variant=VARIANT, **_ONE), "{{variant}}"),
        words=VERDICTS,
        empty=_TOO_FEW,
    )


def _users() -> Block:
    return lines(
        "Users of each variant",
        "Users of each variant who saw that one only.",
        "short",
        Query(state("streammetrics_experiment_users", **_WHOLE), "{{variant}}"),
        least=0,
        empty="No users in this span",
    )


def _shares() -> Block:
    users = state("streammetrics_experiment_users", **_WHOLE)
    return lines(
        "Share of users",
        "Each variant's part of the users. It should be what the assignment promises, and flat.",
        "percentunit",
        Query(f"{users} / scalar({by('sum', [], users)})", "{{variant}}"),
        least=0,
        most=1,
        empty="No users in this span",
    )


def _sample_ratio() -> Block:
    return lines(
        "Even split by chance, over time",
        f"p-value of the sample ratio, valid at every look. Below {POLICY.sample_ratio_alpha:g} (dashed) the assignment or the tracking "
        "is broken, and so is every comparison.",
        "none",
        Query(state("streammetrics_experiment_srm_p_value", **_WHOLE), "p-value"),
        least=0,
        most=1,
        steps=((None, RED), (POLICY.sample_ratio_alpha, GREEN)),
        limits=True,
        empty="No users in this span",
        width=8,
    )


def _multi_exposed() -> Block:
    return lines(
        "Users in several variants, over time",
        "Users who saw more than one variant, left out of every comparison: the number, and their share of all (right).",
        "short",
        Query(state("streammetrics_experiment_multi_exposed_users", **_WHOLE), "users"),
        Query(_multi_exposed_share(), "share"),
        least=0,
        rules=(of_field("share", unit="percentunit", custom__axisPlacement="right"),),
        empty="No users in this span",
        width=8,
    )


def _join() -> Block:
    return lines(
        "Feedback without a list, by reason",
        "Share of feedback that counts for no list, by reason, of all traffic: a broken join shows here before it looks like a regression.",
        "percentunit",
        Query(
            f"{state_rate('streammetrics_feedback_unmatched_total', ['reason'])} / ignoring (reason) group_left () {_all_feedback()}",
            "{{reason}}",
        ),
        least=0,
        stacked=True,
        steps=((None, GREEN), (POLICY.unmatched_share_max, RED)),
        limits=True,
        empty="No feedback in this time range",
        width=8,
    )


def _lists() -> Block:
    return lines(
        "Final lists per second",
        "Lists of each variant that became final: what the comparisons grow by. Left out (dashed) are those of users with millions of "
        "them, of all experiments: robots.",
        "cps",
        Query(state_rate("streammetrics_final_lists_total", experiment=EXPERIMENT, variant=ANY), "{{variant}}"),
        Query(state_rate("streammetrics_experiment_lists_full_total", []), "left out"),
        Query(state_rate("streammetrics_interleaving_too_many_teams_total", []), "too many teams"),
        least=0,
        rules=(dashed("B"),),
        empty="No final lists in this time range",
        width=24,
        height=6,
    )


def _multi_exposed_share() -> str:
    """Of all users: those of one variant are counted apart."""
    several = state("streammetrics_experiment_multi_exposed_users", **_WHOLE)
    return f"{several} / ({by('sum', [], state('streammetrics_experiment_users', **_WHOLE))} + {several})"


def _all_feedback() -> str:
    matched, unmatched = state_rate("streammetrics_feedback_matched_total", []), state_rate("streammetrics_feedback_unmatched_total", [])
    return f"({matched} + {unmatched} > 0)"


def _unmatched_share() -> str:
    return f"{state_rate('streammetrics_feedback_unmatched_total', [])} / {_all_feedback()}"
