"""Shares that differ by a segment's value: what is found, and how often it is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from streammetrics.experiments import Policy
from streammetrics.experiments.hours import EntrySums, Hours, entry_of, merge_entries, merge_hours, stratum_of
from streammetrics.experiments.signs import (
    WINDOW_SEGMENT_Z_MIN,
    NewUsers,
    strata_warning,
    uneven_shares,
    uneven_value,
    uneven_words,
    z_of_value,
)
from streammetrics.experiments.stored import StoredSums
from tests.support.experiment_samples import at_most
from tests.support.tables import for_each

HOURS, VALUES, USERS = 100, 24, 8_000
Counts = npt.NDArray[np.float64]


def of(treated: int, both: int) -> NewUsers:
    return NewUsers(treated, both)


def by_value(values: Mapping[str, list[NewUsers]]) -> dict[tuple[str, str], dict[int, NewUsers]]:
    return {("country", value): dict(enumerate(counts)) for value, counts in values.items()}


def test_half_of_one_country_and_a_twentieth_of_the_others_is_found_and_said() -> None:
    sign = uneven_value([of(2_500, 14_000)], by_value({"US": [of(2_000, 4_000)], "DE": [of(500, 10_000)]}))
    assert sign is not None
    assert (sign.segment, sign.value, sign.share, sign.others) == ("country", "DE", 0.05, 0.5)
    said = uneven_words(sign, "ranker", " Assign all alike")
    assert said == "ranker has 5 % of the new users with country=DE and 50 % of all others. Assign all alike"


LANGUAGES = {"US": "en", "DE": "de", "AT": "de"}


def kept(users: Mapping[str, tuple[int, int]], strata: str | None) -> StoredSums:
    """New users by country: of the control and the treatment. They have a language, too. strata: the segment they are counted by."""
    hours, moments = Hours(), EntrySums(24)
    for country, counts in users.items():
        segments = (("country", country), ("language", LANGUAGES[country]))
        stratum = "" if strata is None else stratum_of(strata, segments)
        for arm, count in zip(("control", "new"), counts, strict=True):
            row = hours.row(7)
            row.new_users[arm] = row.new_users.get(arm, 0) + count
            for segment, value in (("", ""), *segments) if stratum else segments:
                row.add_value((segment, value, stratum), arm, count)
            moments.add(arm, entry_of((7, stratum) if stratum else 7), [count])
    return StoredSums(
        experiment="ranker",
        scope="start",
        moments=moments.by_variant(),
        first_list_users={},
        run_hours=hours,
        entry_moments=moments,
        segments=("country", "language"),
    )


APART = {"US": (2_000, 2_000), "DE": (9_500, 500), "AT": (9_500, 500)}


def test_without_strata_the_words_have_the_setting() -> None:
    said = uneven_shares(Policy(), kept(APART, None), "new", "control")
    assert said == (
        "new has 50 % of the new users with country=US and 5 % of all others. Assign all alike. If it is meant, set strata of ranker"
    )


def test_a_segment_that_is_not_one_of_windows_is_told_apart() -> None:
    elsewhere = replace(kept(APART, None), segments=())
    assert uneven_shares(Policy(), elsewhere, "new", "control") is None
    said = uneven_shares(Policy(), elsewhere, "new", "control", of_windows=False)
    assert said is not None
    assert said.startswith("new has 50 % of the new users with country=US and 5 % of all others. Assign all alike. If it is meant, set")
    assert said.endswith(". If the ranker decides about country, it is an effect")
    assert uneven_shares(Policy(), kept(APART, None), "new", "control", of_windows=False) is None


def test_users_of_a_stratum_are_compared_with_each_other() -> None:
    """Languages follow countries, so they differ as long as countries are together."""
    policy = Policy(strata="country")
    assert uneven_shares(policy, kept(APART, "country"), "new", "control") is None
    by_language = uneven_shares(Policy(strata="language"), kept({**APART, "AT": (5_000, 5_000)}, "language"), "new", "control")
    assert by_language is not None
    assert by_language.endswith(" of all others. Assign all alike, or name an experiment for each country")


def test_users_who_came_under_another_setting_are_told_and_still_checked() -> None:
    before, after = kept(APART, None), kept({"US": (900, 900)}, "country")
    both = replace(before, run_hours=merge_hours([before.run_hours, after.run_hours]))
    both = replace(both, entry_moments=merge_entries([before.entry_moments, after.entry_moments]))
    policy = Policy(strata="country")
    assert uneven_shares(policy, both, "new", "control") is not None
    assert str(strata_warning(policy, both)) == (
        "24,000 users of 25,800 came while strata was set otherwise, and are compared as it was then. Give the experiment another name, or "
        "replay the log."
    )
    assert strata_warning(policy, after) is None
    assert strata_warning(Policy(), before) is None
    assert str(strata_warning(Policy(strata="language"), after)).startswith("1,800 users of 1,800 came while strata was set otherwise")


def test_a_ramp_with_a_day_cycle_of_countries_is_no_difference() -> None:
    """By day the share is 50 % and most users are of one country; by night it is 5 %."""
    hours = [of(500, 1_000), of(10, 200)]
    values = by_value({"US": [of(400, 800), of(2, 40)], "DE": [of(100, 200), of(8, 160)]})
    assert uneven_value(hours, values) is None
    pooled = uneven_value([of(510, 1_200)], by_value({"US": [of(402, 840)], "DE": [of(108, 360)]}))
    assert pooled is not None


def test_a_difference_of_less_than_two_points_is_none() -> None:
    hours, values = [of(505_000, 1_000_000)], by_value({"US": [of(259_000, 500_000)], "DE": [of(246_000, 500_000)]})
    assert uneven_value(hours, values) is not None
    hours, values = [of(500_000, 1_000_000)], by_value({"US": [of(254_000, 500_000)], "DE": [of(246_000, 500_000)]})
    assert abs(z_of_value([(values["country", "US"][0], hours[0])])) > WINDOW_SEGMENT_Z_MIN
    assert uneven_value(hours, values) is None


def test_a_segment_with_one_value_compares_nothing() -> None:
    assert uneven_value([of(50, 100)], by_value({"": [of(50, 100)]})) is None
    assert uneven_value([], {}) is None


def test_few_users_of_a_value_say_nothing() -> None:
    assert z_of_value([(of(6, 6), of(50, 1_000))]) == 0.0


def test_z_is_that_of_a_draw_without_replacement() -> None:
    random = np.random.default_rng(5)
    drawn = random.hypergeometric(300, 700, 200, 4_000)
    z_values = [z_of_value([(of(int(count), 200), of(300, 1_000))]) for count in drawn]
    assert np.mean(z_values) == pytest.approx(0.0, abs=0.06)
    assert np.std(z_values) == pytest.approx(1.0, abs=0.05)


def shares(kind: str, hours: npt.NDArray[np.int64]) -> Counts:
    cycle = np.sin(2 * np.pi * hours / 24)
    chosen = {
        "plain": np.full(len(hours), 0.5),
        "rare": np.full(len(hours), 0.05),
        "ramp": 0.05 + 0.15 * (hours // 25),
        "tide": 0.3 + 0.2 * cycle,
    }
    return chosen[kind]


@for_each(["plain", "rare", "ramp", "tide"])
def test_without_a_difference_a_value_is_rarely_ever_named(kind: str) -> None:
    """24 values, one of them with a day cycle, at each of 100 hours, in numpy; the last hour is compared with the package."""
    random, wrong, experiments = np.random.default_rng(20_261_128), 0, 200
    for _ in range(experiments):
        hour = np.sort(random.integers(0, HOURS, USERS))
        weights = 1 / np.arange(1, VALUES + 1)
        others = random.choice(VALUES, USERS, p=weights / weights.sum())
        value = np.where(random.random(USERS) < 0.3 + 0.25 * np.sin(2 * np.pi * hour / 24), 0, others)
        treated = random.random(USERS) < shares(kind, hour)
        cells = hour * VALUES + value
        n, t = (np.bincount(cells, weights, HOURS * VALUES).reshape(HOURS, VALUES) for weights in (np.ones(USERS), treated.astype(float)))
        all_n, all_t = n.sum(axis=1, keepdims=True), t.sum(axis=1, keepdims=True)
        excess = np.cumsum(t - n * all_t / all_n, axis=0)
        variance = np.cumsum(n * (all_n - n) * all_t * (all_n - all_t) / (all_n**2 * (all_n - 1)), axis=0)
        z = np.where(variance >= 5, excess / np.sqrt(np.maximum(variance, 1e-9)), 0.0)
        at = int(np.abs(z[-1]).argmax())
        pairs = [(of(int(t[h, at]), int(n[h, at])), of(int(all_t[h, 0]), int(all_n[h, 0]))) for h in range(HOURS)]
        assert math.isclose(z_of_value(pairs), z[-1, at], abs_tol=1e-9)
        wrong += bool((np.abs(z) > WINDOW_SEGMENT_Z_MIN).any())
    assert wrong <= at_most(0.01, experiments)
