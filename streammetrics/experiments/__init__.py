"""A/B statistics that stay honest however often one looks. Pure: whole numbers in, estimates, intervals and verdicts out.

No I/O, no clock, nothing of streammetrics but its errors. README.md beside this file has the formulas, their sources and what was
measured. This is the contract with whoever keeps the state, and what it names is here: what goes into moments, what is kept, the
report and its parts. How estimates, intervals and verdicts are made is the modules' own. `Measures` is the layout that everything
shares.

**A user, in one experiment and scope.** A scope is the experiment's whole life, or one UTC day of the lists' times. His record:

- the variant that he saw first: that of his least (ts, impression_id) among final lists;
- whether he saw several variants;
- his totals [lists, *columns of the scorer], the plain sum over his final lists; needed only while he saw one variant;
- with variance reduction, his covariates: `Measures.covariate_values` of his totals over final lists before the experiment began;
- of lists that two rankers made together, lists and credit (`list_credit`) by pair of teams.

A final list changes no more, and of one user's lists the earlier are final no later than the later; so whoever takes a user's
newly final lists in the order of (ts, impression_id) never has to move a first exposure, and totals only grow. When a list has
another variant than his first, the user counts as multi-exposed, his totals are withdrawn and dropped, and later lists add nothing.

**A variant, in one experiment and scope and task.** Its moments (`Measures.moments_width` whole numbers without bound: store them as
text or bytes, not as 64 bits) and the number of users who saw it first. Beside them, by experiment and scope, the users who saw
several variants. All three are sums over users, so tasks merge by addition.

    moments = add(subtract(moments, of_users(measures, totals_before)), of_users(measures, totals_after))

Only what a commit shows counts: it is enough, and several times cheaper, to keep the totals that users had at the last commit,
and to apply one such change for each (experiment, scope, variant) when the next commit is made.

**An experiment.** Its scales, a number for each measure, for all variants and scopes: `choose_scales` says which can be frozen now,
from the merged moments of the whole-life scope. Store each once, where the first writer wins, and never again.

**A pane.** The distinct users of sliding windows are counted by `user_windows`, which has a contract of its own.

**A look.** `build_report(measures, policy, Stored(...), scales)` of merged state is everything that is shown; `to_json` and `rows` of it
are for people and for series. Of a day, show the one that holds the time up to which everything is final in all tasks.

A day's user records can go when everything up to its end is final in the task; its moments when no other task needs them.

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
>>> shown = build_report(measures, policy, kept, choose_scales(measures, policy, moments, {}))
>>> shown.verdict.reason
'treatment: 16.7 % fewer lists with a hit in the first 10 than control; certain at 95 % however often you look'
"""

from streammetrics.experiments.building import Stored, build_report, choose_scales
from streammetrics.experiments.interleaving import INTERLEAVED, add_credits, credit_moments, list_credit
from streammetrics.experiments.measures import ExperimentError, Measures
from streammetrics.experiments.moments import add, of_users, subtract, zero
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.report import (
    SINCE_START,
    THIS_DAY,
    ExperimentReport,
    MeasureReport,
    MeasureRow,
    PreferenceReport,
    PreferenceRow,
    role_of,
)
from streammetrics.experiments.verdict import Joined

__all__ = [
    "INTERLEAVED",
    "SINCE_START",
    "THIS_DAY",
    "ExperimentError",
    "ExperimentReport",
    "Joined",
    "MeasureReport",
    "MeasureRow",
    "Measures",
    "Policy",
    "PreferenceReport",
    "PreferenceRow",
    "Stored",
    "add",
    "add_credits",
    "build_report",
    "choose_scales",
    "credit_moments",
    "list_credit",
    "of_users",
    "role_of",
    "subtract",
    "zero",
]
