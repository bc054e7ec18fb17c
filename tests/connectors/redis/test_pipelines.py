"""Tests of reads whose replies are read later, with a fake connection."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from streammetrics.connectors.redis.pipelines import PipelinedReads


class Connection:
    """A fake connection. Replies are values, or errors to raise."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.sent, self.disconnects = deque(replies), list[Any](), 0

    def pack_command(self, *command: Any) -> Any:
        return command

    def send_packed_command(self, command: Any, check_health: bool) -> None:
        self.sent.append(command)

    def read_response(self) -> Any:
        reply = self.replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def disconnect(self) -> None:
        self.disconnects += 1


class Pool:
    """A fake pool with one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.in_use = connection, 0

    def get_connection(self) -> Connection:
        self.in_use += 1
        return self.connection

    def release(self, connection: Connection) -> None:
        self.in_use -= 1


def client_of(*replies: Any) -> tuple[redis.Redis, Pool]:
    client, pool = redis.Redis(), Pool(Connection(*replies))
    client.connection_pool = pool  # type: ignore[assignment]
    return client, pool


def test_replies_are_read_in_order_on_one_connection() -> None:
    client, pool = client_of(b"1", b"2")
    reads = PipelinedReads()
    first, second = reads.send(client, "a", ("GET", "a")), reads.send(client, "b", ("GET", "b"))
    assert (pool.in_use, len(pool.connection.sent)) == (1, 2)
    assert (reads.read(second), reads.read(first)) == (b"2", b"1")
    assert pool.in_use == 0


def test_an_error_reply_is_none_and_the_next_reply_is_read() -> None:
    client, pool = client_of(ResponseError("NOSCRIPT"), b"2")
    reads = PipelinedReads()
    first, second = reads.send(client, "a", ("GET", "a")), reads.send(client, "b", ("GET", "b"))
    assert (reads.read(first), reads.read(second)) == (None, b"2")
    assert (pool.in_use, pool.connection.disconnects) == (0, 0)


def test_a_broken_connection_loses_all_replies() -> None:
    client, pool = client_of(ConnectionError("closed"))
    reads = PipelinedReads()
    first, second = reads.send(client, "a", ("GET", "a")), reads.send(client, "b", ("GET", "b"))
    assert (reads.read(first), reads.read(second)) == (None, None)
    assert (pool.in_use, pool.connection.disconnects) == (0, 1)


def test_a_timeout_is_raised_once() -> None:
    client, pool = client_of(TimeoutError("no reply"))
    reads = PipelinedReads()
    first, second = reads.send(client, "a", ("GET", "a")), reads.send(client, "b", ("GET", "b"))
    with pytest.raises(TimeoutError):
        reads.read(first)
    assert reads.read(second) is None
    assert pool.in_use == 0


def test_a_command_for_another_server_waits_for_the_pending_replies() -> None:
    one, one_pool = client_of(b"1")
    other, other_pool = client_of(b"2")
    reads = PipelinedReads()
    first = reads.send(one, "a", ("GET", "a"))
    second = reads.send(other, "b", ("GET", "b"))
    assert (one_pool.in_use, other_pool.in_use) == (0, 1)
    assert (reads.read(first), reads.read(second)) == (b"1", b"2")


def test_a_command_that_cannot_be_sent_loses_the_pending_replies() -> None:
    client, pool = client_of(b"1")
    reads = PipelinedReads()
    first = reads.send(client, "a", ("GET", "a"))

    def fail(command: Any, check_health: bool) -> None:
        raise ConnectionError("closed")

    pool.connection.send_packed_command = fail  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        reads.send(client, "b", ("GET", "b"))
    assert reads.read(first) is None
    assert (pool.in_use, pool.connection.disconnects) == (0, 1)
