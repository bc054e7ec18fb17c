"""What a worker holds: how much of what came the next commit has room for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from streammetrics.connectors.base import Record
from streammetrics.engine.ingest import users_of
from streammetrics.errors import MalformedEvent, StoreError
from streammetrics.events.model import Event, Feedback
from streammetrics.runtime.chunk import Chunk, split_to_fit
from streammetrics.runtime.retry import CALM_SECONDS, Outage
from streammetrics.runtime.status import Trouble
from streammetrics.runtime.user_sizes import LARGE_BYTES, UserSizes

EVENTS: st.SearchStrategy[Event | MalformedEvent] = st.one_of(
    st.builds(Feedback, st.sampled_from("abcdefgh"), st.just(0), st.just("item"), st.just("click")),
    st.just(MalformedEvent("bad_json", "")),
)
RECORDS = st.lists(st.tuples(st.lists(EVENTS, max_size=4), st.integers(0, 9)), min_size=1, max_size=12)
LARGE = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(LARGE_BYTES, 2 * LARGE_BYTES).map(bytes))


def chunk_of(records: list[tuple[list[Event | MalformedEvent], int]]) -> Chunk:
    return Chunk.of(
        0,
        [Record(offset, -1, bytes(size) or None) for offset, (_, size) in enumerate(records)],
        [(offset, -1, events) for offset, (events, _) in enumerate(records)],
    )


def commits(chunk: Chunk, large: dict[str, bytes], users_max: int, bytes_max: int) -> list[list[int]]:
    """The offsets that each commit takes when the next one is made wherever one has no room."""
    sizes, dirty = UserSizes(), set[str]()
    sizes.observe(large)
    made: list[list[int]] = [[]]
    rest: Chunk | None = chunk
    while rest is not None:
        taken, rest = split_to_fit(rest, sizes, dirty, users_max, bytes_max)
        if taken is not None:
            made[-1] += [record.offset for record in taken.records]
            dirty |= taken.batch.users
        if rest is not None:
            sizes.commit_made({}, ())
            dirty.clear()
            made.append([])
    return made


@given(RECORDS, LARGE, st.integers(1, 10), st.integers(1, 5 * LARGE_BYTES))
def test_a_commit_takes_what_it_has_room_for_and_one_record_whatever_it_holds(
    records: list[tuple[list[Event | MalformedEvent], int]], large: dict[str, bytes], users_max: int, bytes_max: int
) -> None:
    chunk = chunk_of(records)

    def has_room(offsets: list[int]) -> bool:
        users = users_of([chunk.batch.records[offset] for offset in offsets])
        size = sum(len(chunk.records[offset].value or b"") for offset in offsets) + sum(len(large.get(user, b"")) for user in users)
        return len(users) <= users_max and size <= bytes_max

    expected: list[list[int]] = [[]]
    for offset in range(len(records)):
        if expected[-1] and not has_room([*expected[-1], offset]):
            expected.append([])
        expected[-1].append(offset)
    assert commits(chunk, large, users_max, bytes_max) == expected


def test_what_was_taken_before_leaves_less_room() -> None:
    sizes, chunk = UserSizes(), chunk_of([([Feedback("v", 0, "item", "click")], 10)])
    assert split_to_fit(chunk, sizes, {"u"}, 1, 100) == (None, chunk)
    assert split_to_fit(chunk, sizes, {"v"}, 1, 100) == (chunk, None)
    assert sizes.taken_bytes == 10
    assert split_to_fit(chunk, sizes, {"v"}, 1, 19) == (None, chunk)
    assert split_to_fit(chunk, sizes, {"v"}, 1, 20) == (chunk, None)


AWAY = StoreError("nobody answers")


def test_an_outage_is_two_lines_however_often_something_goes_well_in_between() -> None:
    outage = Outage("store")
    with capture_logs() as lines:
        for second in range(0, 600, 2):
            outage.failed(AWAY, second, 0)
            outage.succeeded(second + 0.5)
            outage.succeeded(second + 1.5)
        for second in range(600, 620):
            outage.succeeded(second)
    assert lines == [
        {"event": "store unavailable, trying again", "error": "nobody answers", "log_level": "warning"},
        {"event": "store available again", "failures": 300, "log_level": "info"},
    ]


def test_the_next_outage_is_told_of_again() -> None:
    outage = Outage("store")
    with capture_logs() as lines:
        for began in (0.0, 100.0):
            outage.failed(AWAY, began, 0)
            outage.succeeded(began + 1)
            outage.succeeded(began + 1 + CALM_SECONDS)
            outage.succeeded(began + 2 + CALM_SECONDS)
    assert [line["log_level"] for line in lines] == ["warning", "info"] * 2


def test_trouble_lasts_from_the_first_failure_to_the_first_success() -> None:
    outage = Outage("store")
    outage.failed(AWAY, 10.0, 0)
    outage.failed(AWAY, 20.0, 0)
    assert outage.trouble == Trouble(10.0, 2, "nobody answers")
    outage.succeeded(21.0)
    assert outage.trouble is None
    outage.failed(AWAY, 22.0, 0)
    assert outage.trouble == Trouble(22.0, 1, "nobody answers")


def test_patience_ends_only_where_nothing_goes_well_for_so_long() -> None:
    outage = Outage("store")
    for second in range(0, 100, 10):
        outage.failed(AWAY, second, 30.0)
        outage.succeeded(second + 1)
    outage.failed(AWAY, 100.0, 30.0)
    outage.failed(AWAY, 130.0, 30.0)
    with pytest.raises(StoreError, match="nobody answers"):
        outage.failed(AWAY, 131.0, 30.0)
