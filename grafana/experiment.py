"""The dashboard *Experiment*: verdicts, lifts with their intervals, and the health of the experiment."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import variables
from grafana.experiment_health import health_numbers, health_panels
from grafana.layout import Section, build
from grafana.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    Block,
    Query,
    fixed,
    lines,
    listing,
    mapping,
    number,
    of_field,
    of_pattern,
    of_query,
    states,
)
from grafana.queries import ANY, EXPERIMENT, METRIC, NONE, ONE_K, SCOPE, VARIANT, by, state
from streammetrics.experiments.gate import GATE_CODES, GateWord
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.verdict import VERDICT_CODES, Word

UID = "streammetrics-experiment"

_WORDS: dict[Word, tuple[str, str]] = {
    "regressed": ("regressed", RED),
    "invalid": ("invalid", ORANGE),
    "mixed": ("mixed", PURPLE),
    "inconclusive": ("inconclusive", GREY),
    "safe": ("safe", BLUE),
    "improved": ("improved", GREEN),
}
VERDICTS = {str(VERDICT_CODES[word]): shown for word, shown in _WORDS.items()}
"""Codes of verdicts with their words and colours."""

_GATE_WORDS: dict[GateWord, tuple[str, str]] = {"pass": ("pass", GREEN), "wait": ("wait", GREY), "fail": ("fail", RED)}
GATE = {str(GATE_CODES[word]): shown for word, shown in _GATE_WORDS.items()}
"""Codes of the gate with their words and colours."""

POLICY = Policy()
_TOO_FEW = f"Nothing is shown until every variant has enough users (by default {POLICY.min_users})."
_ONE = {"experiment": EXPERIMENT, "metric": METRIC, "k": ONE_K, "scope": SCOPE}
_WHOLE = {"experiment": EXPERIMENT, "scope": SCOPE}

_HOW_TO_READ = f"""\
- **regressed**: a variant is worse than the control, by more than the margin. Stop it.
- **safe**: it is not worse than the control by more than the margin. You can ship it.
- **improved**: it is better than the control. Ship it.
- **mixed**: one deciding measure is better and another worse. Choose which one counts.
- **inconclusive**: there are too few users for a result. Wait.
- **invalid**: the split, the assignment or the join is wrong, so no number can be trusted. Fix that first.

Verdicts have {100 * (1 - POLICY.alpha):g} % confidence by default. They are safe to check at any time: act at once.
"""


def experiment() -> dashboard.Dashboard:
    """Build the dashboard."""
    return build(
        uid=UID,
        title="streammetrics / Experiment",
        description="Variants side by side: verdicts that are safe to check at any time, and the health of the experiment.",
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
            Section(title="Verdict", blocks=(_verdict(), *health_numbers(), _table())),
            Section(title="$metric at $k", blocks=(_lift(), _mean(), _over_time())),
            Section(
                title="Reduced variance (CUPED) and interleaved lists, if configured",
                blocks=(_reduced(), _preferences()),
                collapsed=True,
            ),
            Section(title="Health of the experiment", blocks=health_panels()),
        ],
    )


def _verdict() -> Block:
    return number(
        "Verdict on $experiment",
        "The verdict on the whole experiment: invalid if its numbers cannot be trusted, else the worst verdict of the paging measures.\n\n"
        f"{_HOW_TO_READ.rstrip()}",
        "none",
        Query(state("streammetrics_experiment_verdict", variant=NONE, metric=NONE, k=NONE, **_WHOLE), "verdict"),
        words=VERDICTS,
        empty="No such experiment in this scope",
        filled=True,
        width=6,
    )


def _table() -> Block:
    """Make a table with one row per variant and measure: the verdict, then its numbers."""
    verdicts = state("streammetrics_experiment_verdict", variant=VARIANT, metric=ANY, **_WHOLE)
    mean = state("streammetrics_experiment_mean", variant=VARIANT, **_WHOLE)
    roles = state("streammetrics_variant_info", experiment=EXPERIMENT, role='="control"')
    of_control = by("max", ["metric", "k"], f"{state('streammetrics_experiment_mean', **_WHOLE)} * on (variant) group_left () {roles}")
    users = state("streammetrics_experiment_users", variant=VARIANT, **_WHOLE)
    more = "/d/streammetrics-ranking?var-datasource=${datasource}&var-job=${job}&var-experiment=${experiment}"
    return listing(
        "All measures against the control",
        "One row per variant and measure, the worst first. The lift is relative to the control. Its interval is safe to check at any "
        "time. A missing bound is empty. The paging measures share the allowed error. Every other measure has its own, so some of many "
        "verdicts are wrong by chance.",
        {
            "variant": "Variant",
            "metric": "Measure",
            "k": "First k",
            "A": "Verdict",
            "H": "Paging",
            "B": "Lift",
            "C": "Lower bound",
            "D": "Upper bound",
            "E": "Variant's mean",
            "F": "Control's mean",
            "G": "Users",
        },
        Query(verdicts),
        *(Query(state(f"streammetrics_experiment_{name}", variant=VARIANT, **_WHOLE)) for name in ("lift", "lift_lower", "lift_upper")),
        Query(f"{mean} and {verdicts}"),
        Query(f"0 * {verdicts} + on (metric, k) group_left () {of_control}"),
        Query(f"0 * {verdicts} + on (variant) group_left () {users}"),
        Query(f"0 * {verdicts} + on (metric, k) group_left () {state('streammetrics_experiment_paging', **_WHOLE)}"),
        sort=("Lift", False),
        rules=(
            of_field("Verdict", mappings=[mapping(VERDICTS)], custom__cellOptions={"type": "color-background", "mode": "basic"}),
            of_field("Paging", mappings=[mapping({"1": ("yes", BLUE)})]),
            of_field("Lift", unit="percentunit", decimals=2),
            of_pattern("/ bound$/", unit="percentunit", decimals=2),
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
        width=24,
        height=10,
    )


def _lift() -> Block:
    queries = {"lift": "lift", "upper bound": "lift_upper", "lower bound": "lift_lower"}
    return lines(
        "Lift of $variant against the control",
        "Relative difference of $metric at $k to the control, with its interval as a band. The band is safe to check at any time. "
        "Above 0 is better. The dashed line is the default margin.",
        "percentunit",
        *(Query(state(f"streammetrics_experiment_{name}", variant=VARIANT, **_ONE), legend) for legend, name in queries.items()),
        rules=(
            of_field("lift", custom__lineWidth=2, color=fixed(BLUE)),
            of_field("upper bound", custom__fillBelowTo="lower bound", custom__lineWidth=0, custom__fillOpacity=15, color=fixed(BLUE)),
            of_field("lower bound", custom__lineWidth=0, color=fixed(BLUE)),
        ),
        steps=((None, RED), (-POLICY.margin, "transparent")),
        limits=True,
        empty=f"The control has no lift. For other variants: {_TOO_FEW}",
        repeat="variant",
        width=24,
        height=9,
    )


def _reduced() -> Block:
    """Make a table with one row per variant and measure, for experiments with cuped_days."""
    lifts = state("streammetrics_experiment_reduced_lift", variant=VARIANT, **_WHOLE)
    return listing(
        "Lift with reduced variance (CUPED)",
        "The comparison with the variance reduced by the users' earlier behaviour, for experiments with cuped_days. Verdicts use the "
        "plain numbers unless cuped_verdict is set. The deciding upper bound is the one that the verdict of a paging measure uses.",
        {
            "variant": "Variant",
            "metric": "Measure",
            "k": "First k",
            "A": "Lift",
            "B": "Lower bound",
            "C": "Upper bound",
            "D": "Variant's mean",
            "E": "Variance removed",
            "F": "Deciding upper bound",
        },
        Query(lifts),
        *(Query(state(f"streammetrics_experiment_reduced_{name}", variant=VARIANT, **_WHOLE)) for name in ("lift_lower", "lift_upper")),
        *(
            Query(f"{state(f'streammetrics_experiment_{name}', variant=VARIANT, **_WHOLE)} and {lifts}")
            for name in ("reduced_mean", "variance_reduction", "judged_lift_upper")
        ),
        sort=("Lift", False),
        rules=(
            of_field("Lift", unit="percentunit", decimals=2),
            of_pattern("/ bound$/", unit="percentunit", decimals=2),
            of_pattern("/ mean$/", unit="none", decimals=4),
            of_field("Variance removed", unit="percentunit", decimals=1),
        ),
        empty="This experiment has no cuped_days",
        width=24,
        height=8,
    )


def _preferences() -> Block:
    names = ("verdict", "credit", "credit_lower", "credit_upper", "users", "lists")
    return listing(
        "Which ranker users prefer",
        "One row per team of interleaved lists. Credit is the share of lists won minus the share lost. It is safe to check at any time.",
        {
            "team": "Team",
            "against": "Against",
            "A": "Verdict",
            "B": "Credit",
            "C": "Lower bound",
            "D": "Upper bound",
            "E": "Users",
            "F": "Lists",
        },
        *(Query(state(f"streammetrics_interleaving_{name}", **_WHOLE)) for name in names),
        sort=("Credit", False),
        rules=(
            of_field("Verdict", mappings=[mapping(VERDICTS)], custom__cellOptions={"type": "color-background", "mode": "basic"}),
            of_pattern("/^Credit$| bound$/", unit="none", decimals=4),
            of_pattern("/^(Users|Lists)$/", unit="short"),
        ),
        empty="This experiment has no interleaved lists",
        width=24,
        height=8,
    )


def _mean() -> Block:
    return lines(
        "Mean of every variant",
        "Mean of $metric at $k over all final lists in the scope, with the control. user_ measures are means over users.",
        "none",
        Query(state("streammetrics_experiment_mean", **_ONE), "{{variant}}"),
        decimals=4,
        empty=_TOO_FEW,
    )


def _over_time() -> Block:
    return states(
        "Verdict and gate over time",
        "The verdict on $metric at $k, which can change, because it shows what the data supported then. The gate says whether each "
        "treatment may get more traffic. It passes when the treatment is certainly not worse than the control by more than gate_margin, "
        f"by default {100 * POLICY.gate_margin:g} %. It fails when the treatment has regressed.",
        Query(state("streammetrics_experiment_verdict", variant=VARIANT, **_ONE), "{{variant}}"),
        Query(state("streammetrics_experiment_gate", variant=VARIANT, **_WHOLE), "gate, {{variant}}"),
        words=VERDICTS,
        rules=(of_query("B", mappings=[mapping(GATE)]),),
        empty=_TOO_FEW,
    )
