"""A transaction that is judged before it is written: WATCH keys, read them, MULTI, judge, write, EXEC, all on one connection.

What the keys hold, how it is judged and what is written are the caller's; no key is named here. It costs Redis about half of what a
script costs, which copies every argument into Lua and back.

All that is queued is carried out, or nothing: if a key has changed since it was read, EXEC does nothing and the judge is asked
anew; if one command is refused while it is queued (memory, rights, a replica, a moved slot), so is the whole. Errors of commands that
are carried out are not rolled back; only rights taken away between the queueing and EXEC make some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    ResponseError,
    SlotNotCoveredError,
    TimeoutError,
    TryAgainError,
    WatchError,
)

from streammetrics.connectors.redis.client import Client, resending, send, server_of
from streammetrics.errors import StateError

Command = Sequence[str | bytes | int]
Verdict = TypeVar("Verdict")
Judge = Callable[[list[Any]], tuple[Verdict, Sequence[Command]]]
"""From what was read to a verdict on it and the commands to carry out."""

PASSING = (ConnectionError, TimeoutError, WatchError, AskError, TryAgainError, ClusterDownError, SlotNotCoveredError)
"""Troubles after which all is sent again, from WATCH on; whether the last time took effect is for the judge to see. MOVED is an ASK."""

ASKING: Command = ("ASKING",)
"""Opens the way to keys that are moving here, for the command after it; before MULTI, for all up to EXEC."""


def transact(client: Client, keys: Sequence[str], looks: Sequence[Command], judge: Judge[Verdict]) -> Verdict:
    """Ask `looks`, which read; give their answers to `judge`; carry out the commands it returns, if all `keys` are still the same.

    The keys are all that is read and written, and lie in one slot. While a cluster moves it, each of its nodes has some of them and would
    answer for the others as if they were gone; it refuses WATCH then, because that names them together. Returns the judge's verdict on
    what was there. The judge may be asked several times. Raises what it raises, and StateError when some of the commands were carried out
    and others not.
    """
    route, watch = _Route(client, keys[0]), ("WATCH", *keys)
    return resending(*PASSING).call_with_retry(lambda: _once(route, [watch, *looks, ("MULTI",)], judge), route.find)


class _Route:
    """The server that holds a key: the only one, or that of its slot, found anew when the cluster says so."""

    def __init__(self, client: Client, key: str) -> None:
        self.client, self.key = client, key
        self.reached = False
        self._asked: redis.Redis | None = None

    @property
    def asking(self) -> bool:
        return self._asked is not None

    def server(self) -> redis.Redis:
        return server_of(self.client, self.key) if self._asked is None else self._asked

    def find(self, error: Exception) -> None:
        """Where to go after an error. Any command of the client's own makes it learn again who holds the slot."""
        self._asked = None
        if isinstance(self.client, redis.Redis):
            if not self.reached or isinstance(error, TimeoutError):
                raise error  # connecting has been tried often enough, and an answer that does not come is not waited for twice
            return
        if isinstance(error, WatchError):
            return
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            node = self.client.get_node(host=error.host, port=error.port)  # type: ignore[no-untyped-call]
            if node is not None:
                self._asked = self.client.get_redis_connection(node)
                return
        send(self.client, "HLEN", self.key)


class _Watch:
    """Keeps a connection that watches from connecting anew by itself, as it does when another thread has closed it: it would have
    forgotten what it watches, and EXEC would never refuse."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def refuse(self, connection: Any) -> None:
        raise ConnectionError("the connection was closed in the middle of a transaction")

    def __enter__(self) -> None:
        self._connection.register_connect_callback(self.refuse)

    def __exit__(self, *_: object) -> None:
        self._connection.deregister_connect_callback(self.refuse)


def _once(route: _Route, opening: Sequence[Command], judge: Judge[Verdict]) -> Verdict:
    route.reached = False
    pool: Any = route.server().connection_pool
    connection = pool.get_connection()
    route.reached, clean = True, False
    try:
        with _Watch(connection):
            verdict, commands = judge(_begin(connection, opening, route.asking))
            if commands:
                _execute(connection, [*commands, ("EXEC",)])
                clean = True
        return verdict
    finally:
        if not clean:
            connection.disconnect()  # what it watches, has queued or has still to answer goes with it
        pool.release(connection)


def _begin(connection: Any, commands: Sequence[Command], asking: bool) -> list[Any]:
    """Watch and read: what was read.

    MULTI is answered before anything is to be queued: without it, all that follows would be carried out at once.
    """
    answers = _talk(connection, [part for command in commands for part in ((ASKING, command) if asking else (command,))])
    _raise_first(answers)
    return answers[3:-1:2] if asking else answers[1:-1]


def _execute(connection: Any, commands: Sequence[Command]) -> None:
    *queued, done = _talk(connection, commands)
    if isinstance(done, ResponseError):
        _raise_first([*queued, done])  # the reason comes before EXECABORT
    if done is None:
        raise WatchError("the key was changed by others again and again")
    try:
        _raise_first([*queued, *done])
    except ResponseError as error:
        raise StateError(
            f"Redis has carried out a commit in part ({error}): the rights of redis.username were changed just then",
            "begin anew with a new redis.namespace",
        ) from error


def _talk(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """The answers to all of these, sent at once; without the check of a connection's health, which may connect anew."""
    connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    return [_answer(connection) for _ in commands]


def _answer(connection: Any) -> Any:
    """The next answer; a refusal is one as well, so that those after it are read."""
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _raise_first(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, ResponseError):
            raise answer
