"""Sends several commands over one connection: as a transaction, or as reads whose replies are read later.

A transaction reads, decides and writes: WATCH, reads, MULTI, the decision, writes, EXEC. The caller provides keys, reads, decision and
writes. A transaction costs Redis about half as much as a script, which copies every argument into Lua and back.

Either all writes run or none. If a key has changed since it was read, EXEC does nothing and the decision is made again. If one command is
refused while it is queued (memory, rights, a replica, a moved slot), all are. Redis does not roll back commands that fail in EXEC, but
that happens only if rights are taken away between queueing and EXEC.

A pipelined read has most likely arrived when its reply is read. One thread sends and reads. A second thread would have to get Python's
global lock several times per read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
    TimeoutError,
    TryAgainError,
    WatchError,
)

from streammetrics.connectors.redis.client import Client, retry_policy, send, server_of
from streammetrics.errors import StateError

Command = Sequence[str | bytes | int]
Decision = TypeVar("Decision")
Decide = Callable[[list[Any]], tuple[Decision, Sequence[Command]]]
"""Turns the values read into a decision and the commands to run."""
RETRIED = (ConnectionError, TimeoutError, WatchError, AskError, TryAgainError, ClusterDownError, SlotNotCoveredError)
"""Errors after which the transaction starts again with WATCH. `decide` sees whether the last one took effect. MovedError is an AskError."""
ASKING: Command = ("ASKING",)
"""Lets the next command use keys that are being moved to this node. Before MULTI it covers everything up to EXEC."""


def transact(client: Client, keys: Sequence[str], reads: Sequence[Command], decide: Decide[Decision]) -> Decision:
    """Run `reads`, pass their replies to `decide`, and run the commands it returns if no key has changed. Returns the decision.

    `keys` are all keys read and written, in one slot. While a cluster moves the slot, each of two nodes has some of the keys and answers
    as if the others did not exist. WATCH names all keys together, so it fails then. `decide` may be called several times. Raises what
    `decide` raises, and StateError if only some of the commands ran.
    """
    route, watch = _Route(client, keys[0]), ("WATCH", *keys)
    return retry_policy(*RETRIED).call_with_retry(lambda: _once(route, [watch, *reads, ("MULTI",)], decide), route.find)


def rehearse(client: Client, key: str, commands: Sequence[Command]) -> None:
    """Run an empty transaction, then queue these commands in another one and drop it. Nothing is changed.

    Raises the error of a command that the server does not have, or that its user may not use with these keys.
    """
    pool: Any = server_of(client, key).connection_pool
    connection = pool.get_connection()
    try:
        for replies in (
            _exchange(connection, [("WATCH", key), ("MULTI",), ("EXEC",)]),
            _exchange(connection, [("MULTI",), *commands]),
        ):
            _raise_first(replies)
    finally:
        connection.disconnect()
        pool.release(connection)


class _Route:
    """Finds the server that holds a key: the only one, or the node of the key's slot."""

    def __init__(self, client: Client, key: str) -> None:
        self.client, self.key = client, key
        self.connected = False
        self._ask_node: redis.Redis | None = None

    @property
    def asking(self) -> bool:
        return self._ask_node is not None

    def server(self) -> redis.Redis:
        return server_of(self.client, self.key) if self._ask_node is None else self._ask_node

    def find(self, error: Exception) -> None:
        """Choose the server for the next attempt after an error, or raise the error."""
        self._ask_node = None
        if isinstance(self.client, redis.Redis):
            if not self.connected or isinstance(error, TimeoutError):
                raise error  # connecting was retried already, and a timeout is not waited for twice
            return
        if isinstance(error, WatchError):
            return
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            node = self.client.get_node(host=error.host, port=error.port)  # type: ignore[no-untyped-call]
            if node is not None:
                self._ask_node = self.client.get_redis_connection(node)
                return
        send(self.client, "HLEN", self.key)  # any command makes the client look up the slot again


class _Watch:
    """Keeps a connection from reconnecting by itself, as it does when another thread has closed it. After a reconnect Redis watches
    no key, so EXEC would not notice a change."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def refuse(self, connection: Any) -> None:
        raise ConnectionError("the connection was closed in the middle of a transaction")

    def __enter__(self) -> None:
        self._connection.register_connect_callback(self.refuse)

    def __exit__(self, *_: object) -> None:
        self._connection.deregister_connect_callback(self.refuse)


def _once(route: _Route, opening: Sequence[Command], decide: Decide[Decision]) -> Decision:
    route.connected = False
    pool: Any = route.server().connection_pool
    connection = pool.get_connection()
    route.connected, clean = True, False
    try:
        with _Watch(connection):
            decision, commands = decide(_begin(connection, opening, route.asking))
            if commands:
                _execute(connection, [*commands, ("EXEC",)])
                clean = True
        return decision
    finally:
        if not clean:
            connection.disconnect()  # drops its watched keys, queued commands and unread replies
        pool.release(connection)


def _begin(connection: Any, commands: Sequence[Command], asking: bool) -> list[Any]:
    """Watch and read. Returns the values read.

    The reply to MULTI is read before anything is queued. Without MULTI, the commands after it would run at once.
    """
    replies = _exchange(connection, [part for command in commands for part in ((ASKING, command) if asking else (command,))])
    _raise_first(replies)
    return replies[3:-1:2] if asking else replies[1:-1]


def _execute(connection: Any, commands: Sequence[Command]) -> None:
    *queued, done = _exchange(connection, commands)
    if isinstance(done, ResponseError):
        _raise_first([*queued, done])  # the reason is before EXECABORT
    if done is None:
        raise WatchError("other clients kept changing the keys")
    try:
        _raise_first([*queued, *done])
    except ResponseError as error:
        raise StateError(
            f"Redis ran only a part of a commit ({error}): the rights of redis.username were changed meanwhile",
            "start again with a new redis.namespace",
        ) from error


def _exchange(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Send all commands at once and return their replies. The connection's health check is off, because it may reconnect."""
    connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    return [_reply(connection) for _ in commands]


def _reply(connection: Any) -> Any:
    """Return the next reply. An error is returned too, so that the replies after it are read."""
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _raise_first(replies: Sequence[Any]) -> None:
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply


class PendingReply:
    """A command that was sent. `value` is None until its reply is read, and if the reply is lost or an error."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


class PipelinedReads:
    """Commands on their way to one server. Their connection is kept until all replies are read, in order.

    When the connection fails, all replies are lost, and the caller must read in the usual way.
    """

    def __init__(self) -> None:
        self._pending: deque[PendingReply] = deque()
        self._pool: Any = None
        self._connection: Any = None

    def send(self, client: Client, key: str, command: Command) -> PendingReply:
        """Send a command that reads one key. Raises the client's error when it cannot be sent."""
        pool: Any = server_of(client, key).connection_pool
        if self._pending and pool is not self._pool:
            self.read(self._pending[-1])
        if self._connection is None:
            self._pool, self._connection = pool, pool.get_connection()
        try:
            self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)
        except BaseException:
            self._disconnect()
            raise
        reply = PendingReply()
        self._pending.append(reply)
        return reply

    def read(self, reply: PendingReply) -> Any:
        """Return the value of a reply, or None if it is lost or an error.

        Raises TimeoutError if it does not arrive in time, so that the caller does not wait for it again.
        """
        while reply in self._pending:
            try:
                value = self._connection.read_response()
            except ResponseError:  # the other replies still arrive
                value = None
            except BaseException as error:
                self._disconnect()
                if isinstance(error, TimeoutError) or not isinstance(error, (RedisError, OSError)):
                    raise
                return None
            self._pending.popleft().value = value
        if not self._pending:
            self._release()
        return reply.value

    def _disconnect(self) -> None:
        self._pending.clear()
        self._connection.disconnect()
        self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)
