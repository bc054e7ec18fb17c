"""Sequential A/B statistics: moments of users in; estimates, intervals and verdicts out. Pure.

This room has no I/O and no clock, and imports nothing of streammetrics but its errors. README.md has the formulas, their sources and
the measurements. This page is the contract with the engine, which keeps the state. `Measures` is the layout that everything shares.

**A user, per experiment and scope.** A scope is the whole run of the experiment, or one UTC day by the time of the lists. The engine
keeps for each user:

- the variant of their first final list, by (ts, impression_id);
- whether they saw several variants;
- their totals [lists, *columns of the scorer], summed over final lists, while they have seen one variant only;
- their covariates, with variance reduction: `Measures.covariate_values` of the totals before the experiment;
- lists and credit (`list_credit`) of interleaved lists, by pair of teams.

A final list never changes, and a user's earlier lists become final no later than their later ones. So if a user's final lists are
added in the order of (ts, impression_id), the first variant never changes and totals only grow. When a list has another variant than
the first, the user is multi-exposed: their totals are withdrawn, and later lists add nothing.

**A variant, per experiment, scope and task.** The engine keeps its moments and the number of users that saw it first. It also keeps
the number of users that saw several variants, per experiment and scope. Moments are `Measures.moments_width` unbounded integers:
store them as text or bytes, because 64 bits are too few. All these are sums over users, so tasks merge by addition.

    moments = add(subtract(moments, of_users(measures, totals_before)), of_users(measures, totals_after))

Only commits are visible. So it is enough, and several times faster, to apply one such change per commit for each experiment, scope
and variant.

**Cells.** In a rollout with stages a user belongs to (stage, variant) and, with unit "list", to every variant that they saw. Each stage
has all of the above for itself. For each two cells the engine also keeps the cross moments of the users in both:
`cross_of_users(layout, totals in one, totals in the other)`. When a user's totals in a cell change, so do the cross moments with each other
cell of that user, by the difference of the products.

**An experiment.** It has frozen numbers per measure, for all variants and scopes. `choose_scales` returns the numbers that
can be frozen now, from what is stored since the start. Store each of them once; the first writer wins.

**A report.** `build_report(measures, policy, Stored(...), scales)` is the whole report of merged state.
Of the days, show the one that contains the time up to which everything is final in all tasks.

A day's user records can be dropped when everything up to its end is final in the task. Its moments can be dropped when no other task
needs them.

>>> from streammetrics.metrics import Scorer
>>> measures = Measures(Scorer(["hit_rate@10"]).columns)
>>> one = 1 << 40
>>> moments = {
...     "control": of_users(measures, [[4, 2 * one], [4, 3 * one], [4, one]] * 500),
...     "treatment": of_users(measures, [[4, 2 * one], [4, 2 * one], [4, one]] * 500),
... }
>>> policy = Policy(paging=("hit_rate@10",))
>>> kept = Stored(experiment="ranker-v7", scope="start", moments=moments,
...     first_exposures={"control": 1500, "treatment": 1503}, multi_exposed_users=3)
>>> report = build_report(measures, policy, kept, choose_scales(measures, policy, kept, {}))
>>> report.verdict.reason
'treatment: 16.7 % fewer lists with a hit in the first 10 than control; 95 % confidence, safe to check at any time'
"""

from streammetrics.experiments.building import build_report
from streammetrics.experiments.covariance_sums import CovarianceLayout, cross_of_users
from streammetrics.experiments.experiment_report import (
    SINCE_START,
    THIS_DAY,
    ExperimentReport,
    MeasureReport,
    role_of,
)
from streammetrics.experiments.health import Joined
from streammetrics.experiments.interleaving import INTERLEAVED, add_credits, credit_moments, list_credit
from streammetrics.experiments.measures import ExperimentError, Measures
from streammetrics.experiments.moments import add, of_users, subtract, zero
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.preferences import PreferenceReport
from streammetrics.experiments.scales import choose_scales
from streammetrics.experiments.stage_values import StageReport
from streammetrics.experiments.stages import ExperimentUnit, Stage, stage_key
from streammetrics.experiments.stored import Cell, Stored, StoredStage

__all__ = [
    "INTERLEAVED",
    "SINCE_START",
    "THIS_DAY",
    "Cell",
    "CovarianceLayout",
    "ExperimentError",
    "ExperimentReport",
    "ExperimentUnit",
    "Joined",
    "MeasureReport",
    "Measures",
    "Policy",
    "PreferenceReport",
    "Stage",
    "StageReport",
    "Stored",
    "StoredStage",
    "add",
    "add_credits",
    "build_report",
    "choose_scales",
    "credit_moments",
    "cross_of_users",
    "list_credit",
    "of_users",
    "role_of",
    "stage_key",
    "subtract",
    "zero",
]
