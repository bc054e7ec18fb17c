"""When a time is supported: a small jump by one event, a larger one by events of several users in a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.supported_time import StoredSupport, SupportedTime, SupportRules
from streammetrics.events.event_time import NEVER
from tests.oracle import Settings
from tests.oracle.supported_time import SupportedTime as ExpectedTime

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOW = 1_772_359_200_000
YEAR_9999 = 253_402_300_799_999
DISORDER_MS, LATENESS_MS = 5 * SECOND, MINUTE

Seen = tuple[str, int]


def both(rules: SupportRules, disorder_ms: int = DISORDER_MS, lateness_ms: int = LATENESS_MS) -> tuple[SupportedTime, ExpectedTime]:
    settings = Settings(
        out_of_orderness_ms=disorder_ms,
        lateness_ms=lateness_ms,
        support_jump_ms=rules.jump_ms,
        support_users=rules.users,
        support_events=rules.events,
        support_far_ms=rules.far_ms,
    )
    return SupportedTime(rules, out_of_orderness_ms=disorder_ms, lateness_ms=lateness_ms), ExpectedTime(settings)


class Input:
    """One input with the default rules, checked against the oracle after every event."""

    def __init__(self, *, started: bool = True) -> None:
        self.real, self.expected = both(SupportRules())
        self.users = 0
        if started:
            self.others(range(5))

    def send(self, user: str, after_ms: int) -> None:
        self.real.take(user, NOW + after_ms)
        self.expected.take(user, NOW + after_ms)
        assert (self.real.time if self.real.time != NEVER else None) == (self.expected.t_ms if self.expected.begun else None)
        assert self.real.row == len(self.expected.row)

    def others(self, times_ms: Iterable[int]) -> None:
        """Send events of users that were not seen before."""
        for after_ms in times_ms:
            self.users += 1
            self.send(f"u{self.users}", after_ms)

    @property
    def after_ms(self) -> int | None:
        """The supported time, relative to NOW."""
        return None if self.real.time == NEVER else self.real.time - NOW

    def refuses(self, after_ms: int) -> bool:
        """Whether an event at this time, that was just sent, is refused as future."""
        return NOW + after_ms > self.real.refused_from


def test_a_time_begins_with_five_users_that_agree() -> None:
    source = Input(started=False)
    source.others(second * SECOND for second in range(4))
    assert source.after_ms is None
    source.others([4 * SECOND])
    assert source.after_ms == 0


def test_one_event_moves_the_time_by_the_jump_and_no_further() -> None:
    source = Input()
    source.others([65 * SECOND])
    assert source.after_ms == 65 * SECOND
    source.others([130 * SECOND + 1])
    assert (source.after_ms, source.real.row) == (65 * SECOND, 1)
    source.others([130 * SECOND])
    assert (source.after_ms, source.real.row) == (130 * SECOND, 0)


def test_one_event_a_month_ahead_is_refused_and_one_hours_ahead_is_not() -> None:
    source = Input()
    source.others([30 * DAY])
    assert source.refuses(30 * DAY)
    source.others([8 * HOUR])
    assert not source.refuses(8 * HOUR)
    source.others([SECOND])
    assert source.after_ms == SECOND


def test_an_event_may_be_as_far_ahead_as_the_limit() -> None:
    source = Input()
    source.others([7 * DAY])
    assert not source.refuses(source.after_ms + 7 * DAY)  # type: ignore[operator]
    assert source.refuses(source.after_ms + 7 * DAY + 1)  # type: ignore[operator]


def test_after_a_silence_the_64th_event_moves_the_time_to_the_fifth_greatest() -> None:
    source = Input()
    times = [60 * HOUR + 500 * number for number in range(64)]
    source.others(times[:63])
    assert source.after_ms == 0
    assert not source.refuses(times[-1])
    source.others(times[63:])
    assert source.after_ms == times[-5]


def test_a_sparse_input_needs_ten_events_in_order() -> None:
    source = Input()
    times = [2 * DAY + 5 * MINUTE * number for number in range(10)]
    source.others(times[:9])
    assert source.after_ms == 0
    source.others(times[9:])
    assert source.after_ms == times[5]


def test_wrong_clocks_that_differ_are_no_sparse_input() -> None:
    source = Input()
    source.others(hours * HOUR for hours in (3, 9, 1, 14, 2, 7, 5, 12, 4, 8, 6, 13, 10, 11))
    assert source.after_ms == 0


def test_after_ten_days_of_silence_63_events_are_refused() -> None:
    source = Input()
    times = [10 * DAY + 500 * number for number in range(64)]
    refused = []
    for at in times:
        source.others([at])
        refused.append(source.refuses(at))
    assert refused == [True] * 63 + [False]
    assert source.after_ms == times[0]


def test_one_user_needs_512_events_in_a_row() -> None:
    source = Input()
    for number in range(511):
        source.send("robot", 8 * HOUR + number)
    assert source.after_ms == 0
    source.send("robot", 8 * HOUR + 511)
    assert source.after_ms == 8 * HOUR + 511


def test_a_good_event_ends_the_row_and_one_of_1970_does_not() -> None:
    source = Input()
    source.send("robot", 8 * HOUR)
    source.send("old", -NOW)
    assert source.real.row == 1
    source.send("good", 0)
    assert source.real.row == 0


def test_wrong_clocks_at_the_start_set_no_time() -> None:
    source = Input(started=False)
    for number in range(3):
        source.send(f"bad{number}", YEAR_9999 - NOW)
    for number in range(60):
        source.send(f"good{number % 5}", number * SECOND)
    assert source.after_ms is None
    source.send("good0", 60 * SECOND)
    assert source.after_ms == 59 * SECOND


def test_a_clock_that_stands_still_ends_a_row_only_once() -> None:
    source = Input()
    stuck_ends = 0
    for number in range(64):
        source.others([9 * HOUR + number * 500])
        before = source.real.row
        source.send("stuck", 0)
        stuck_ends += source.real.row < before
    assert stuck_ends == 1
    source.others([9 * HOUR + 64 * 500])
    assert source.after_ms == 9 * HOUR + 60 * 500


def test_twenty_bad_events_of_one_client_move_nothing() -> None:
    source = Input()
    for number in range(20):
        source.send("client", 3 * HOUR + number * 10 * MINUTE)
    assert source.after_ms == 0


@pytest.mark.parametrize(
    ("times", "end"),
    [([], None), ([0], 0), ([0, 10], 10), ([0, 8 * DAY, 10], 10), ([0, 8 * DAY], 0), ([0, 3 * DAY, 6 * DAY, 12 * DAY], 12 * DAY)],
)
def test_an_input_that_ends_before_its_time_begins_is_settled(times: Sequence[int], end: int | None) -> None:
    source = Input(started=False)
    source.others(times)
    assert source.real.at_end() == (NEVER if end is None else NOW + end)


def test_an_input_that_ends_after_a_silence_follows_the_last_events() -> None:
    source = Input()
    source.others(DAY + number for number in range(4))
    assert source.real.at_end() == NOW
    source.others([DAY + 4])
    assert source.real.at_end() == NOW + DAY


RULES = st.builds(
    SupportRules,
    jump_ms=st.sampled_from((0, 5, 20)),
    users=st.integers(1, 4),
    events=st.integers(1, 8),
    far_ms=st.sampled_from((0, 30, 200)),
)
EVENTS = st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 12), st.sampled_from((0, 0, 0, 0, -6, 7, 40, 300))), max_size=150)


@given(RULES, EVENTS, st.integers(0, 3), st.integers(0, 6))
def test_every_trace_equals_brute_force_and_survives_json(
    rules: SupportRules, events: list[tuple[str, int, int]], disorder_ms: int, lateness_ms: int
) -> None:
    real, expected = both(rules, disorder_ms, lateness_ms)
    now = 1_000
    for user, forward, error in events:
        now += forward
        real.take(user, now + error)
        expected.take(user, now + error)
        assert real.time == (expected.t_ms if expected.begun else NEVER)
        assert real.at_end() == expected.at_end()
        kept = msgspec.json.decode(msgspec.json.encode(real.stored()), type=StoredSupport)
        assert kept == real.stored()
        real.restore(kept)


@given(EVENTS)
def test_one_user_and_one_event_set_the_time_as_their_maximum(events: list[tuple[str, int, int]]) -> None:
    real, _ = both(SupportRules(users=1, events=1, jump_ms=0, far_ms=0))
    greatest = NEVER
    for user, ts, error in events:
        greatest = max(greatest, ts + error)
        real.take(user, ts + error)
        assert (real.time, real.row) == (greatest, 0)


def test_a_long_user_id_is_kept_as_a_hash() -> None:
    source = Input(started=False)
    source.send("u" * 500, 0)
    ((user, _, _),) = source.real.recent
    assert len(user) == 16
