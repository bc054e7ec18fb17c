"""The sample of a task's users: any order gives the same sample, and tasks that share users are found."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.user_sample import PERIOD_MS, USERS_MAX, SampledUsers, UserSample, decode_sample, merge_samples
from streammetrics.events.model import Impression
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

USERS = [f"user-{number}" for number in range(20_000)]


def sample_of(users: Iterable[str], ts: int = 0) -> UserSample:
    sample = UserSample()
    for user in users:
        sample.add(user, ts)
    return sample


def merged(*samples: UserSample) -> SampledUsers:
    return merge_samples(decode_sample(sample.stored()) for sample in samples)


@given(st.lists(st.tuples(st.sampled_from(USERS[:400]), st.integers(0, 4 * PERIOD_MS)), max_size=600), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_change_the_sample(events: list[tuple[str, int]], order: random.Random) -> None:
    one, other = UserSample(), UserSample()
    for user, ts in events:
        one.add(user, ts)
    shuffled = order.sample(events, len(events))
    for user, ts in shuffled:
        other.add(user, ts)
    assert other.stored() == one.stored()


@given(st.lists(st.tuples(st.sampled_from(USERS[:300]), st.integers(0, 3 * PERIOD_MS), st.booleans()), max_size=400))
def test_a_restored_sample_continues_as_if_it_had_not_been_stored(events: list[tuple[str, int, bool]]) -> None:
    whole, restored = UserSample(), UserSample()
    for user, ts, is_stored in events:
        whole.add(user, ts)
        restored.add(user, ts)
        if is_stored:
            stored = restored.stored()
            restored = UserSample()
            restored.restore(stored)
    assert restored.stored() == whole.stored()


def test_users_on_one_task_each_are_not_reported() -> None:
    tasks = [sample_of(USERS[task::4]) for task in range(4)]
    assert merged(*tasks).on_several == 0
    assert merged(*tasks).users >= USERS_MAX


def test_the_share_of_users_on_several_tasks_is_estimated() -> None:
    rng = random.Random(1)
    several = set(rng.sample(USERS, len(USERS) // 5))
    tasks = [
        sample_of([user for at, user in enumerate(USERS) if at % 4 == task or (user in several and at % 4 == task - 1)])
        for task in range(4)
    ]
    users, on_several = merged(*tasks)
    assert 0.08 < on_several / users < 0.22  # three of four users of the chosen fifth are on a second task


def test_few_users_are_counted_exactly() -> None:
    tasks = [sample_of(USERS[:60]), sample_of(USERS[50:100])]
    assert merged(*tasks) == SampledUsers(100, 10)


def test_tasks_of_different_sizes_are_compared_where_both_samples_are_complete() -> None:
    large, small = sample_of(USERS), sample_of(USERS[:40])
    users, on_several = merged(large, small)
    assert users == USERS_MAX
    assert on_several == len({*decode_sample(small.stored())[0][1]} & {*decode_sample(large.stored())[0][1]})


def test_only_the_newest_two_periods_are_kept() -> None:
    sample = UserSample()
    for number, ts in enumerate((0, PERIOD_MS, 5 * PERIOD_MS, 4 * PERIOD_MS, 3 * PERIOD_MS)):
        sample.add(f"u{number}", ts)
    assert [period for period, _ in sample.stored()] == [4 * PERIOD_MS, 5 * PERIOD_MS]


def test_a_task_that_is_far_behind_is_not_compared() -> None:
    assert merged(sample_of(["u"], 0), sample_of(["u"], 9 * PERIOD_MS)) == SampledUsers(1, 0)


def test_the_sample_takes_about_two_kilobytes_of_a_commit() -> None:
    sample = sample_of(USERS)
    sample_of_two = sample_of(USERS, PERIOD_MS)
    stored = [*sample.stored(), *sample_of_two.stored()]
    assert len(msgspec.json.encode(stored)) < 2_150


def test_each_admitted_event_adds_its_user_to_the_period_of_the_event() -> None:
    settings = Settings(inputs=("events",), gap_ms=PERIOD_MS)
    machine = Machine(engine_of(settings), settings)
    times = (0, PERIOD_MS - 1, PERIOD_MS, PERIOD_MS + 5)
    machine.feed([Arrival("events", Impression(f"x{ts}", "u", ts, ("a",))) for ts in times])
    assert machine.state.user_sample.stored() == sample_of(["u"], 0).stored() + sample_of(["u"], PERIOD_MS).stored()
