"""The backlog hands out chunks in order and forgets what was prefetched together with them."""

from __future__ import annotations

from streammetrics.connectors.source import InputRecord
from streammetrics.runtime.consume.backlog import Backlog, Chunk, PrefetchedChunk


def records(first: int, count: int) -> list[InputRecord]:
    return [InputRecord(offset, -1, b"{}") for offset in range(first, first + count)]


def decoded(topic: int, some: list[InputRecord]) -> Chunk:
    return Chunk.of(topic, some, [(record.offset, -1, ()) for record in some])


def offsets(backlog: Backlog) -> list[tuple[int, list[int]]]:
    return [(topic, [record.offset for record in some]) for topic, some in backlog.records]


def test_polled_records_are_cut_into_chunks_in_order() -> None:
    backlog = Backlog()
    assert not backlog
    backlog.add(0, records(0, 5), 2)
    backlog.add(1, records(7, 1), 2)
    assert offsets(backlog) == [
        (0, [0, 1]),
        (0, [2, 3]),
        (0, [4]),
        (1, [7]),
    ]
    assert backlog


def test_the_head_is_replaced_by_its_rest_or_removed() -> None:
    backlog = Backlog()
    backlog.add(1, records(0, 3), 3)
    chunk = decoded(1, list(backlog.records[0][1]))
    _, rest = chunk.cut(1)
    backlog.replace_head(rest)
    assert offsets(backlog) == [(1, [1, 2])]
    backlog.replace_head(None)
    assert not backlog


def test_only_the_chunk_at_the_head_is_known_as_decoded() -> None:
    backlog = Backlog()
    backlog.add(0, records(0, 4), 2)
    second = decoded(0, backlog.records[1][1])  # type: ignore[arg-type]
    backlog.prefetched.append(PrefetchedChunk(second, frozenset(), None))
    assert backlog.decoded_head() is None
    backlog.replace_head(None)
    assert backlog.decoded_head() is second


def test_chunks_after_the_head_are_prefetched_once_up_to_a_limit() -> None:
    backlog = Backlog()
    backlog.add(0, records(0, 5), 1)
    assert [some[0].offset for _, some in backlog.to_prefetch(3)] == [1, 2, 3]
    backlog.prefetched.append(PrefetchedChunk(decoded(0, records(1, 1)), frozenset(), None))
    assert [some[0].offset for _, some in backlog.to_prefetch(3)] == [2, 3]
    assert backlog.prefetched_bytes == 2


def test_a_cleared_backlog_forgets_records_and_requests() -> None:
    backlog = Backlog()
    backlog.add(0, records(0, 1), 1)
    backlog.due = lambda: None
    backlog.clear()
    assert (list(backlog.records), list(backlog.prefetched), backlog.due) == ([], [], None)
