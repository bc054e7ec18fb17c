"""An arm that has stopped, by its lists: when it is reported, and what a report says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.config.toml_text import settings_text
from streammetrics.experiments import ExperimentReport, Policy, Stored, build_report, choose_scales, of_users
from streammetrics.experiments.arrivals import HOUR_MS
from streammetrics.experiments.silent_arms import silent_arm
from tests.experiments.columns import MEASURES
from tests.experiments.samples import stored

HOUR = 492_336
"""2026-03-02 00:00 UTC."""


def kept(
    lists_since: int, *, lists: int = 2_000, treated: int = 2_000, per_user: int = 1, silent_hours: int = 3, window_hours: int | None = None
) -> Stored:
    """The control had so many lists in the hours since the treatment's last one, and `lists` before, as users with `per_user` lists."""
    counts = {"control": lists + lists_since, "treatment": treated}
    moments = {
        name: of_users(MEASURES, [[per_user, per_user << 39, per_user << 39, per_user, 5 * per_user, per_user << 30]] * (count // per_user))
        for name, count in counts.items()
    }
    found = stored(dict.fromkeys(counts, 0.5), users=100)
    end = HOUR + 1 + silent_hours
    return replace(
        found,
        moments=moments,
        to_ms=end * HOUR_MS,
        last_ms={"control": end * HOUR_MS - 1, "treatment": HOUR * HOUR_MS + 1_200_000},
        recent_lists={"control": {HOUR: 500, end - 1: lists_since}, "treatment": {HOUR: 500}},
        window_ms=None if window_hours is None else window_hours * HOUR_MS,
    )


def test_an_arm_is_silent_once_twenty_lists_were_expected() -> None:
    assert silent_arm(MEASURES, kept(19), "control", "treatment") is None
    found = silent_arm(MEASURES, kept(20), "control", "treatment")
    assert found == ("treatment", "control", HOUR * HOUR_MS + 1_200_000, 20, 20.0)


def test_a_small_arm_needs_more_lists_of_the_other() -> None:
    assert silent_arm(MEASURES, kept(380, treated=100), "control", "treatment") is None
    found = silent_arm(MEASURES, kept(400, treated=100), "control", "treatment")
    assert found is not None
    assert (found.others_lists, found.expected) == (400, 20.0)


def test_lists_of_one_user_count_as_one_visit() -> None:
    assert silent_arm(MEASURES, kept(99, per_user=5), "control", "treatment") is None
    assert silent_arm(MEASURES, kept(100, per_user=5), "control", "treatment") is not None


def test_beyond_the_longest_window_five_lists_suffice() -> None:
    assert silent_arm(MEASURES, kept(5, window_hours=4), "control", "treatment") is None
    assert silent_arm(MEASURES, kept(5, window_hours=3), "control", "treatment") is not None
    assert silent_arm(MEASURES, kept(4, window_hours=3), "control", "treatment") is None


def test_the_control_may_be_the_silent_one() -> None:
    other = kept(20)
    swapped = replace(
        other,
        moments={"control": other.moments["treatment"], "treatment": other.moments["control"]},
        last_ms={"control": other.last_ms["treatment"], "treatment": other.last_ms["control"]},
        recent_lists={"control": other.recent_lists["treatment"], "treatment": other.recent_lists["control"]},
    )
    found = silent_arm(MEASURES, swapped, "control", "treatment")
    assert found is not None
    assert (found.arm, found.other) == ("control", "treatment")


def test_arms_that_stopped_together_are_not_silent() -> None:
    together = kept(0)
    assert silent_arm(MEASURES, together, "control", "treatment") is None
    assert silent_arm(MEASURES, replace(together, last_ms={}), "control", "treatment") is None


def report(found: Stored) -> ExperimentReport:
    policy = Policy(paging=("ndcg@10",), settings_text=settings_text)
    return build_report(MEASURES, policy, found, choose_scales(MEASURES, policy, found, {}))


@pytest.mark.parametrize("since", [0, 150])
def test_a_silent_arm_has_no_verdict_and_its_gate_waits(since: int) -> None:
    arms = stored({"control": 0.5, "treatment": 0.6})
    silent = replace(arms, **{name: getattr(kept(since), name) for name in ("to_ms", "last_ms", "recent_lists")})
    own = report(silent).variants[1]
    assert own.verdict is not None
    assert own.gate is not None
    assert (own.verdict.word, own.gate.word) == (("improved", "pass") if since == 0 else ("inconclusive", "wait"))
    if since:
        assert own.gate.reason == own.verdict.reason
        assert own.verdict.reason == (
            "treatment has had no list since 2026-03-02 00:20 UTC, while control has had 150 (about 152 were expected): it has ended or is"
            " not logged, so control and treatment are not compared. To compare them up to then, set under [experiments.named.ranker]:"
            " end = 2026-03-02T01:00:00Z, and count the log again (`streammetrics replay --find-stages` does both)"
        )
        assert own.measures[0].lift_lower is own.measures[0].lift is None
