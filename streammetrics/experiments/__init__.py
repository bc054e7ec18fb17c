"""Sequential A/B statistics: moments of users in; estimates, intervals and verdicts out. Pure.

This room has no I/O and no clock, and imports nothing of streammetrics but its errors. README.md has the formulas, their sources and
the measurements. This page is the contract with the engine, which keeps the state. `Measures` is the layout that everything shares.

**A user, per experiment and scope.** A scope is the whole run of the experiment, or one UTC day by the time of the lists. The engine
keeps for each user:

- the hour of their first final list in the run, in any variant (see `hours`);
- by variant, their totals [lists, *columns of the scorer], summed over final lists;
- their covariates, with variance reduction: `Measures.covariate_values` of the totals before the experiment;
- lists and credit (`list_credit`) of interleaved lists, by pair of teams.

A final list never changes, and a user's earlier lists become final no later than their later ones. So if a user's final lists are
added in the order of (ts, impression_id), the first one never changes and totals only grow.

**A variant, per experiment, scope and task.** The engine keeps its moments by the day on which users came, the sums of its lists by hour
and entry, and for each two variants the cross moments of the users in both: `cross_of_users(layout, totals in one, totals in the
other)`. Moments are `Measures.moments_width` unbounded integers: store them as text or bytes, because 64 bits are too few. All these are
sums, so tasks merge by addition.

    moments = add(subtract(moments, of_users(measures, totals_before)), of_users(measures, totals_after))

Only commits are visible. So it is enough, and several times faster, to apply one such change per commit for each experiment, scope
and variant.

**An experiment.** It has frozen numbers per measure, for all variants and scopes. `choose_scales` returns the numbers that
can be frozen now, from what is stored since the start. Store each of them once; the first writer wins.

**A report.** `build_report(measures, policy, StoredSums(...), scales)` is the whole report of merged state.
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
>>> hours, entry = Hours(), Entry(24, 20_000)
>>> hours.row(480_000).totals = {("control", entry): [6000, 3000 * one], ("treatment", entry): [6000, 2500 * one]}
>>> entry_moments = EntrySums(24)
>>> entry_moments.sums = {(variant, entry): sums for variant, sums in moments.items()}
>>> policy = Policy(paging=("hit_rate@10",))
>>> kept = StoredSums(experiment="ranker-v7", scope="start", moments=moments, entry_moments=entry_moments, hours=hours, run_hours=hours,
...     first_list_users={"control": 1500, "treatment": 1503})
>>> report = build_report(measures, policy, kept, choose_scales(measures, policy, kept, {}))
>>> report.verdict.reason
'treatment: 16.7 % fewer lists with a hit in the first 10 than control; 95 % confidence, safe to check at any time'
"""

from streammetrics.errors import ExperimentError
from streammetrics.experiments.building import build_report, choose_scales, new_decisions
from streammetrics.experiments.experiment_report import (
    SINCE_START,
    THIS_DAY,
    ExperimentReport,
    MeasureReport,
    role_of,
)
from streammetrics.experiments.hours import Entry, EntrySums, Hours
from streammetrics.experiments.policy import INTERLEAVED, ExperimentUnit, Policy
from streammetrics.experiments.preferences import PreferenceReport
from streammetrics.experiments.stored import FeedbackCounts, StoredSums
from streammetrics.statistics.interleaving import add_credits, credit_moments, list_credit
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import CovarianceLayout, add, cross_of_users, of_users, subtract, zero

__all__ = [
    "INTERLEAVED",
    "SINCE_START",
    "THIS_DAY",
    "CovarianceLayout",
    "Entry",
    "EntrySums",
    "ExperimentError",
    "ExperimentReport",
    "ExperimentUnit",
    "FeedbackCounts",
    "Hours",
    "MeasureReport",
    "Measures",
    "Policy",
    "PreferenceReport",
    "StoredSums",
    "add",
    "add_credits",
    "build_report",
    "choose_scales",
    "credit_moments",
    "cross_of_users",
    "list_credit",
    "new_decisions",
    "of_users",
    "role_of",
    "subtract",
    "zero",
]
