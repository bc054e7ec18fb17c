"""Hours in which an arm had no list: when they are certain, and what a report makes of them."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.experiments import Entry, EntrySums, ExperimentReport, Hours, Policy, StoredSums, build_report, choose_scales, of_users
from streammetrics.experiments.cell_estimates import Pair
from streammetrics.experiments.experiment_state import SilentHours, silent_hours
from streammetrics.experiments.verdict import MeasureComparison, evidence
from streammetrics.statistics.estimates import Estimate
from streammetrics.statistics.sequence import MeasureScale
from tests.support.columns import MEASURES, ONE

FIRST = 480_000
NDCG = MEASURES.named("ndcg@10")


def kept(control: list[int], treatment: list[int], per_user: int = 1, chances: tuple[float, float] = (0.5, 0.5)) -> StoredSums:
    """Lists by hour. Each user has so many lists, all in the hour in which they come, and a chance of a hit in each."""
    hours, by_day, users = Hours(), EntrySums(24), EntrySums()
    for variant, counts, chance in (("control", control, chances[0]), ("treatment", treatment, chances[1])):
        for at, lists in enumerate(counts):
            hits = round(lists * chance)
            hits_of_users = [per_user if number * per_user < hits else 0 for number in range(lists // per_user)]
            rows = [[per_user, hits * ONE, hits * ONE, hits, 5 * per_user, hits << 33] for hits in hits_of_users]
            entry = Entry(1, FIRST + at)
            if rows:
                hours.row(FIRST + at).add_totals(variant, entry, [sum(column) for column in zip(*rows, strict=True)])
                by_day.add(variant, entry, of_users(MEASURES, rows))
                users.add(variant, entry, [len(rows), sum(hits > 0 for hits in hits_of_users)])
    return StoredSums(
        experiment="ranker",
        scope="start",
        moments=by_day.by_variant(),
        first_list_users={variant: sums[0] for variant, sums in users.by_variant().items()},
        hours=hours,
        run_hours=hours,
        entry_moments=by_day,
        entry_users=users,
    )


def silent(stored: StoredSums) -> list[tuple[str, int, int, int]]:
    silences = silent_hours(MEASURES, stored, "treatment", "control")
    return [(silence.arm, silence.span.first - FIRST, silence.span.end - FIRST, silence.others_lists) for silence in silences]


def test_an_arm_is_silent_once_twenty_lists_were_expected() -> None:
    for lists, spans in ((19, []), (20, [("treatment", 1, 2, 20)])):
        assert silent(kept([100, lists, 100], [100, 0, 100])) == spans


def test_a_small_arm_needs_more_lists_of_the_other_and_lists_of_one_user_are_one_visit() -> None:
    assert silent(kept([1_000, 199, 1_000], [100, 0, 100])) == []
    assert silent(kept([1_000, 200, 1_000], [100, 0, 100])) == [("treatment", 1, 2, 200)]
    assert silent(kept([100, 99, 100], [100, 0, 100], per_user=5)) == []
    assert silent(kept([100, 100, 100], [100, 0, 100], per_user=5)) == [("treatment", 1, 2, 100)]


def test_hours_follow_each_other_and_may_be_the_first_or_the_last() -> None:
    assert silent(kept([10, 10, 100, 10, 10], [0, 0, 100, 0, 0])) == [("treatment", 0, 2, 20), ("treatment", 3, 5, 20)]
    assert silent(kept([0, 100, 0], [30, 100, 30])) == [("control", 0, 1, 30), ("control", 2, 3, 30)]
    assert silent(kept([100, 0, 100, 0], [0, 100, 0, 100])) == []  # no hour has both, so nothing tells their shares


def report_of(stored: StoredSums, policy: Policy) -> ExperimentReport:
    return build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {}))


def test_lists_of_silent_hours_are_not_compared_and_users_with_a_hit_are_not_at_all() -> None:
    """In the silent hours the control has no hit at all."""
    whole = kept([400, 400, 400], [400, 400, 400])
    (first, second, third) = (whole.hours.rows[FIRST + at] for at in range(3))
    hours = Hours()
    hours.rows = {FIRST: first, FIRST + 2: third}
    row = hours.row(FIRST + 1)
    row.totals = {key: [totals[0], 0, 0, 0, *totals[4:]] for key, totals in second.totals.items() if key[0] == "control"}
    stored = replace(whole, hours=hours, run_hours=hours)
    assert silent(stored) == [("treatment", 1, 2, 400)]
    report = report_of(stored, Policy(paging=("ndcg@10",)))
    treatment = report.variants[1]
    assert treatment.measures[0].lift == 0.0
    (users,) = [measure for measure in treatment.measures if measure.metric == "user_hit_rate"]
    assert users.lift_upper is None
    assert users.verdict is not None
    assert users.verdict.reason == (
        "an arm had no list for hours, so its users had less time for a hit: user_hit_rate@5 cannot be compared"
    )


def test_a_verdict_needs_both_estimates_once_an_arm_was_silent() -> None:
    """Users of the first hour have many hits. The treatment's of them look new, because it was silent then."""
    stored = kept([0, 300, 300], [300, 300, 300])
    hours = Hours()
    came, later = Entry(1, FIRST), Entry(1, FIRST + 1)
    hours.row(FIRST).add_totals("control", came, [400, 300 * ONE, 300 * ONE, 300, 2_000, 0])
    for at in (1, 2):
        row = hours.row(FIRST + at)
        row.add_totals("control", came, [200, 150 * ONE, 150 * ONE, 150, 1_000, 0])
        row.add_totals("control", later, [200, 50 * ONE, 50 * ONE, 50, 1_000, 0])
        row.add_totals("treatment", later, [400, 200 * ONE, 200 * ONE, 200, 2_000, 0])
    stored = replace(stored, hours=hours, run_hours=hours)
    assert [hours.arm for hours in silent_hours(MEASURES, stored, "treatment", "control")] == ["treatment"]
    left_out = [hours.span for hours in silent_hours(MEASURES, stored, "treatment", "control")]
    by_entry, by_hour = (
        Pair(MEASURES, stored, "treatment", "control", by_entry=by_entry, left_out=left_out).combined(NDCG) for by_entry in (True, False)
    )
    assert by_entry is not None
    assert by_hour is not None
    assert by_entry.treatment.mean - by_entry.control.mean > 0.2
    assert abs(by_hour.treatment.mean - by_hour.control.mean) < 1e-12
    report = report_of(stored, Policy(paging=("ndcg@10",), min_users=10, effective_users_min=0))
    assert report.verdict.word == "inconclusive"
    measure = report.variants[1].measures[0]
    assert measure.difference_lower is not None
    assert measure.difference_upper is not None
    assert measure.difference_lower < 0 < measure.difference_upper


def test_the_evidence_of_two_estimates_is_the_smaller_one() -> None:
    sure, unsure = (
        MeasureComparison(NDCG, Estimate(0.4 * (1 + lift), 1.6e-5, 5_000), Estimate(0.4, 1.6e-5, 5_000), MeasureScale(0.04, 0.4))
        for lift in (-0.2, -0.01)
    )
    both: MeasureComparison = sure._replace(by_hour=unsure)
    policy = Policy()
    assert evidence(policy, both) == tuple(map(min, evidence(policy, sure), evidence(policy, unsure)))


def test_the_note_names_the_hours_and_the_start_that_leaves_them_out() -> None:
    report = report_of(kept([300, 300, 300], [300, 0, 300]), Policy(paging=("ndcg@10",)))
    (note,) = [warning for warning in report.warnings if warning.key == "silent arm"]
    assert str(note) == (
        "treatment had no list from 2024-10-04 01:00 UTC to 2024-10-04 02:00 UTC, while the other arm had 300 lists: these hours are not"
        " compared, and a verdict on treatment against control needs the lists of the same hours to agree, whenever their users came. To"
        " compare all lists after it, replay the log and set start of ranker."
    )
    assert isinstance(silent_hours(MEASURES, kept([300, 300, 300], [300, 0, 300]), "treatment", "control")[0], SilentHours)
