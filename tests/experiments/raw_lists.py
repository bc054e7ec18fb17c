"""What the product keeps of raw lists, for tests against brute force."""

from __future__ import annotations

from collections.abc import Sequence

from streammetrics.experiments.hours import EntrySums, Hours, entry_of
from streammetrics.experiments.stored import StoredSums
from streammetrics.metrics import Scorer
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import CovarianceLayout, cross_of_users, of_users
from tests.oracle.cells import RawList, came

MEASURES = Measures(Scorer(["item_hit_rate@10"]).columns)
RATE = MEASURES.named("item_hit_rate@10")


def stored_of(lists: Sequence[RawList]) -> StoredSums:
    """Return what the product keeps of raw lists: y are hits, and d places."""
    hours, moments, first, pairs = Hours(), EntrySums(24), came(lists), {}
    rows: dict[str, dict[str, list[int]]] = {}
    for impression in sorted(lists, key=lambda one: one.hour):
        hours.row(impression.hour).add_totals(
            impression.variant, hours.entry_of(first[impression.user], impression.hour), [1, impression.y, impression.d]
        )
        hours.bound()
        sums = rows.setdefault(impression.variant, {}).setdefault(impression.user, [0, 0, 0])
        rows[impression.variant][impression.user] = [sums[0] + 1, sums[1] + impression.y, sums[2] + impression.d]
    for variant, users in rows.items():
        for user, row in users.items():
            moments.add(variant, entry_of(first[user]), of_users(MEASURES, [row]))
            moments.bound()
    names = sorted(rows)
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            both = sorted(rows[one].keys() & rows[other].keys())
            if both:
                layout = CovarianceLayout(MEASURES)
                pairs[one, other] = cross_of_users(layout, [rows[one][user] for user in both], [rows[other][user] for user in both])
    return StoredSums(
        experiment="ranker",
        scope="start",
        moments=moments.by_variant(),
        first_list_users={},
        hours=hours,
        run_hours=hours,
        entry_moments=moments,
        pairs=pairs,
    )
