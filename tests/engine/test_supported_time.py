"""When a time is supported: a small jump by one event, a larger one by a queue whose middle runs on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.supported_time import StoredSupport, SupportedTime, SupportRules
from streammetrics.events.event_time import FOREVER, NEVER
from tests.oracle import Settings
from tests.oracle.supported_time import SupportedTime as ExpectedTime
from tests.support.paths import ROOT

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOW = 1_772_359_200_000
YEAR_9999 = 253_402_300_799_999
DISORDER_MS, LATENESS_MS = 5 * SECOND, MINUTE

UserTime = tuple[str, int]


def both(rules: SupportRules, disorder_ms: int = DISORDER_MS, lateness_ms: int = LATENESS_MS) -> tuple[SupportedTime, ExpectedTime]:
    settings = Settings(
        out_of_orderness_ms=disorder_ms,
        lateness_ms=lateness_ms,
        support_jump_ms=rules.jump_ms,
        support_users=rules.users,
        support_far_ms=rules.far_ms,
    )
    return SupportedTime(rules, out_of_orderness_ms=disorder_ms, lateness_ms=lateness_ms), ExpectedTime(settings)


class Input:
    """One input with the default rules, checked against the oracle after every event. It has begun, and its time is NOW."""

    def __init__(self, *, started: bool = True) -> None:
        self.real, self.expected = both(SupportRules())
        self.users = 0
        if started:
            self.others(range(-200 * SECOND, 1, 2 * SECOND))

    def send(self, user: str, after_ms: int) -> None:
        ts = NOW + after_ms
        self.real.consider(user, ts)
        self.expected.consider(user, ts)
        assert (self.real.time if self.real.time != NEVER else None) == (self.expected.t_ms if self.expected.begun else None)
        assert (ts > self.real.refused_from) == self.expected.is_refused(ts)
        assert self.real.outliers == self.expected.contradicted

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


def started(*times_ms: int) -> Input:
    """Return an input that has begun, after events of further users."""
    source = Input()
    source.others(times_ms)
    return source


def test_a_time_begins_when_the_middle_of_ten_events_has_run_65_seconds() -> None:
    source = Input(started=False)
    source.others(7 * SECOND * number for number in range(19))  # the middle of the first ten is at 4 x 7 s
    assert source.after_ms is None
    source.others([19 * 7 * SECOND])
    assert source.after_ms == 18 * 7 * SECOND


def test_one_event_moves_the_time_by_the_jump_and_no_further() -> None:
    source = started(5 * SECOND)
    assert source.after_ms == 5 * SECOND
    source.others([10 * SECOND + 1])
    assert (source.after_ms, source.real.recent[-1][1]) == (5 * SECOND, NOW + 10 * SECOND + 1)
    source.others([10 * SECOND])
    assert (source.after_ms, source.real.recent) == (10 * SECOND, [])


def test_one_event_moves_no_time_further_than_events_may_be_late() -> None:
    real, _ = both(SupportRules(), 200, 1_000)
    for number in range(100):
        real.consider(f"u{number}", NOW + 100 * number)
    time = real.time
    real.consider("fast", time + 1_201)
    assert real.time == time
    real.consider("good", time + 1_200)
    assert real.time == time + 1_200


def test_one_event_a_month_ahead_is_refused_and_one_hours_ahead_is_not() -> None:
    source = started(30 * DAY)
    assert source.refuses(30 * DAY)
    source.others([8 * HOUR])
    assert not source.refuses(8 * HOUR)
    source.others([SECOND])
    assert (source.after_ms, source.real.outliers, source.real.outlier) == (SECOND, 2, ("u103", NOW + 8 * HOUR, 8 * HOUR))


def test_an_event_may_be_as_far_ahead_as_the_limit() -> None:
    source = started()
    assert not source.refuses(7 * DAY)
    assert source.refuses(7 * DAY + 1)


def test_after_a_silence_the_time_waits_until_the_middle_has_run() -> None:
    source, times = started(), [60 * HOUR + 500 * number for number in range(141)]
    source.others(times[:140])  # the middle is at event 134 and began at event 4, so it has run 65 s
    assert source.after_ms == 0
    source.others(times[140:])
    assert source.after_ms == times[-2]
    assert source.real.outliers == 0


def test_a_sparse_input_follows_two_to_six_events_later() -> None:
    source, lags = started(), []
    for number in range(1, 200):
        source.others([MINUTE * number])
        assert source.after_ms is not None
        lags.append(MINUTE * number - source.after_ms)
    assert max(lags[20:]) <= 6 * MINUTE
    assert source.real.outliers == 0


def test_a_pause_in_a_sparse_input_leaves_no_lag() -> None:
    source, lags = started(), []
    for number in range(1, 400):
        now_ms = 15 * SECOND * number + (10 * MINUTE if number > 200 else 0)
        source.send(f"user{number % 50}", now_ms)
        assert source.after_ms is not None
        lags.append(now_ms - source.after_ms)
    assert max(lags[230:]) <= 65 * SECOND + 2 * 15 * SECOND


def test_wrong_clocks_that_differ_do_not_agree() -> None:
    source = started(*(hours * HOUR for hours in (3, 9, 1, 14, 2, 7, 5, 12, 4, 8)))
    source.others([SECOND])
    assert (source.after_ms, source.real.outliers) == (SECOND, 10)


def test_a_batch_of_a_wrong_server_takes_no_time_so_it_moves_nothing() -> None:
    source = started(*(8 * HOUR + 100 * number for number in range(500)))
    source.others([SECOND])
    assert (source.after_ms, source.real.outliers) == (SECOND, 500)


def test_after_ten_days_of_silence_nine_events_are_refused() -> None:
    source, refused = started(), []
    for at in [10 * DAY + SECOND * number for number in range(100)]:
        source.others([at])
        refused.append(source.refuses(at))
    assert refused == [True] * 9 + [False] * 91
    assert source.after_ms == 10 * DAY + 99 * SECOND


def test_one_user_needs_320_events_in_a_row() -> None:
    source = started()
    for number in range(320):
        source.send("robot", 8 * HOUR + number * 300)
        assert source.after_ms == 0
    first_middle = 8 * HOUR + 319 * 300
    source.send("robot", first_middle + 65 * SECOND)
    assert source.after_ms == 0
    source.send("robot", first_middle + 65 * SECOND + 1)
    assert source.after_ms == first_middle + 65 * SECOND


def test_a_good_event_ends_the_row_and_one_of_1970_does_not() -> None:
    source = started()
    source.send("robot", 8 * HOUR)
    source.send("old", -NOW)
    assert len(source.real.recent) == 1
    source.send("good", 0)
    assert source.real.recent == []


def test_wrong_clocks_at_the_start_set_no_time_and_are_counted() -> None:
    source = Input(started=False)
    for number in range(3):
        source.send(f"bad{number}", YEAR_9999 - NOW)
    for number in range(74):  # the middle begins at second 5 and is two seconds behind the newest event
        source.send(f"good{number % 5}", number * SECOND)
        assert (source.after_ms is None) == (number < 73)
    assert (source.after_ms, source.real.outliers) == (72 * SECOND, 3)


def test_a_majority_of_1970_that_leaves_begins_the_time_an_hour_early() -> None:
    source = Input(started=False)
    source.others([-NOW] * 10)
    source.others([0] * 5)
    assert source.after_ms is None
    source.others([0])
    assert source.after_ms is not None
    assert source.after_ms <= 0
    assert source.real.began == source.real.time >= NOW - HOUR


def test_a_clock_that_stands_still_ends_a_row_only_once() -> None:
    source, stuck_ends = started(), 0
    for number in range(150):
        source.others([9 * HOUR + number * 500])
        before = len(source.real.recent)
        source.send("stuck", 0)
        stuck_ends += len(source.real.recent) < before
    assert stuck_ends == 1
    assert source.after_ms is not None
    assert source.after_ms > 9 * HOUR


def test_three_hundred_bad_events_of_one_client_move_nothing() -> None:
    source = started()
    for number in range(300):
        source.send("client", 3 * HOUR + number * 10 * SECOND)
    assert source.after_ms == 0


def test_one_of_ten_servers_an_hour_ahead_makes_no_event_late() -> None:
    """The servers send in batches, which lie together in the log."""
    random, source, at_ms = Random(1), started(), 0
    for _ in range(150):
        ahead_ms = HOUR if random.random() < 0.1 else 0
        for _ in range(random.randint(1, 40)):
            at_ms += 20
            source.others([at_ms + ahead_ms - random.randrange(3 * SECOND)])
        assert source.after_ms is not None
        assert source.after_ms <= at_ms


def test_two_senders_half_an_hour_apart_both_count() -> None:
    random, source, late = Random(1), started(), 0
    for number in range(2_000):
        ts = 500 * number + 30 * MINUTE * random.randrange(2)
        assert source.after_ms is not None
        late += ts < source.after_ms - 65 * SECOND
        source.others([ts])
    assert late == 0


@pytest.mark.parametrize("is_restored", [False, True])
def test_the_last_wrong_clocks_of_a_row_are_contradicted_when_ten_events_have_come_since(is_restored: bool) -> None:
    """From the eleventh event near the middle on, no middle is looked for. Each event before may push one of the others out."""
    source = started(*[8 * HOUR] * 10, *[8 * HOUR + 100 * SECOND] * 5)
    if is_restored:
        source.real.restore(source.real.stored(), source.real.time)
    source.others([8 * HOUR] * 9)
    assert source.real.outliers == 4
    source.others([8 * HOUR] * 3)
    assert source.real.outliers == 5


def test_a_wrong_clock_that_moves_the_time_is_contradicted_when_ten_events_have_come_since() -> None:
    source = started(*(8 * HOUR + 7 * SECOND * number for number in range(19)))
    assert source.after_ms == 0
    source.others([9 * HOUR])
    assert source.after_ms == 8 * HOUR + 18 * 7 * SECOND
    source.others([8 * HOUR + 140 * SECOND] * 9)
    assert source.real.outliers == 0
    source.others([8 * HOUR + 140 * SECOND])
    assert source.real.outliers == 1


@pytest.mark.parametrize(
    ("times", "end"),
    [([], None), ([0], 0), ([0, 10], 10), ([0, 8 * DAY, 10], 10), ([0, 8 * DAY], 0), ([0, 3 * DAY, 6 * DAY, 12 * DAY], 12 * DAY)],
)
def test_an_input_that_ends_before_its_time_begins_is_settled(times: Sequence[int], end: int | None) -> None:
    source = Input(started=False)
    source.others(times)
    assert source.real.at_end() == (NEVER if end is None else NOW + end)


def test_an_input_that_ends_after_a_silence_follows_the_last_events() -> None:
    source = started(*(DAY + number for number in range(4)))
    assert source.real.at_end() == NOW
    source.others([DAY + 4])
    assert source.real.at_end() == NOW + DAY + 4


def test_ordinary_traffic_stores_no_users() -> None:
    assert started().real.stored() == StoredSupport()


RULES = st.builds(
    SupportRules,
    jump_ms=st.sampled_from((0, 1, 5, 20)),
    users=st.integers(1, 4),
    far_ms=st.sampled_from((0, 30, 200)),
)
EVENTS = st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 12), st.sampled_from((0, 0, 0, 0, -6, 7, 40, 300))), max_size=150)


@given(RULES, EVENTS, st.integers(0, 3), st.integers(0, 6), st.integers(1, 60))
def test_every_trace_equals_brute_force_and_survives_json(
    rules: SupportRules, events: list[tuple[str, int, int]], disorder_ms: int, lateness_ms: int, restore_every: int
) -> None:
    real, expected = both(rules, disorder_ms, lateness_ms)
    now, newest = 1_000, NEVER
    for number, (user, forward, error) in enumerate(events):
        now += forward
        before, newest = real.time, max(newest, now + error)
        real.consider(user, now + error)
        expected.consider(user, now + error)
        assert real.time == (expected.t_ms if expected.begun else NEVER)
        assert before <= real.time <= newest
        assert real.at_end() == expected.at_end()
        assert real.outliers == expected.contradicted
        assert (now + error > real.refused_from) == expected.is_refused(now + error)
        kept = msgspec.json.decode(msgspec.json.encode(real.stored()), type=StoredSupport)
        assert kept == real.stored()
        if number % restore_every == 0:
            real.restore(kept, real.time)


@given(EVENTS)
def test_with_one_user_the_time_is_the_maximum(events: list[tuple[str, int, int]]) -> None:
    real, _ = both(SupportRules(users=1, jump_ms=0, far_ms=0))
    greatest = NEVER
    for user, ts, error in events:
        greatest = max(greatest, ts + error)
        real.consider(user, ts + error)
        assert (real.time, real.recent, real.refused_from) == (greatest, [], FOREVER)


def test_a_long_user_id_is_kept_as_a_hash() -> None:
    source = Input(started=False)
    source.send("u" * 500, 0)
    ((user, _),) = source.real.recent
    assert len(user) == 16


def test_the_example_of_the_page() -> None:
    lines = (ROOT / "streammetrics" / "engine" / "README.md").read_text(encoding="utf-8").splitlines()
    begin = lines.index("| event | user | time | T | why |") + 2
    table = [line.split("|")[2:5] for line in lines[begin : lines.index("", begin)]]
    real, expected = both(SupportRules(users=2))
    real.restore(StoredSupport(), 0)
    expected.t_ms, expected.users = 0, ["x", "y", "z"]
    for user, ts, time in table:
        for support in (real, expected):
            support.consider(user.strip(), int(ts) * SECOND)
        assert real.time == expected.t_ms == int(time) * SECOND
    assert (len(table), real.outliers, expected.contradicted) == (11, 1, 1)
