"""Keeps task state in Redis or a Redis Cluster: commits by transaction, everything else by script. Decodes no value."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

import redis
from redis.exceptions import ClusterError, NoScriptError, RedisClusterException, RedisError, ResponseError

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import (
    CLIENT_NAME,
    Client,
    LazyClient,
    explaining_errors,
    place_of,
    replies_of,
    require_files,
    send,
)
from streammetrics.connectors.redis.keys import (
    LAYOUT_VERSION,
    Script,
    TaskKeys,
    bounds_text,
    claimed,
    field_of,
    loaded,
    present,
    viewed,
    writes,
)
from streammetrics.connectors.redis.pipelines import Command, PipelinedReads, rehearse, transact
from streammetrics.connectors.redis.server_info import ServerInfo, lost_keys, merged, read_server_info, require_complete
from streammetrics.connectors.store import (
    NO_BOUNDS,
    READ_SLICE,
    Claim,
    Commit,
    CommitOutcome,
    DueQuery,
    PendingDueUsers,
    PendingUsers,
    StoreNode,
)
from streammetrics.state.tables import GROWS, CommitMark, LoadedUsers, TaskView

ReplyT = TypeVar("ReplyT")

CLOCK = "return redis.call('TIME')"
"""TIME in a script with a key. Alone it names no key, so a cluster's client would not follow a key that has moved."""
FIELDS_MAX = 5_000
"""Users per HMGET, so that other clients do not wait long."""
NO_DUE = DueQuery(0, 0, 0)
BYTES_MAX = 1 << 50
"""More than any reply has, so it means no limit."""
VIEWS_MAX = 32
"""Tasks per pipeline. It bounds the memory for the replies."""


COMMANDS: tuple[tuple[str | int, ...], ...] = (
    ("HDEL", "f"),
    ("HGET", "f"),
    ("HGETALL",),
    ("HINCRBY", "f", 1),
    ("HKEYS",),
    ("HLEN",),
    ("HMGET", "f"),
    ("HSET", "f", "v"),
    ("HSETNX", "f", "v"),
    ("HSTRLEN", "f"),
    ("ZADD", 1, "m"),
    ("ZCARD",),
    ("ZRANGE", 0, 0),
    ("ZRANGEBYSCORE", 0, 1),
    ("ZREM", "m"),
)
"""The commands of claims and commits, also those inside scripts, with arguments after their key."""


class RedisStore:
    """A `Store` in Redis >= 6.2, Valkey or Redis Cluster; see `streammetrics.connectors.store`. Usable from several threads.

    It connects at the first call. The constructor raises ConfigError for unreadable certificate files. Methods raise StoreError when
    Redis cannot serve, and StateError for keys of another program or layout, and for missing keys.
    """

    def __init__(self, settings: RedisSettings, client_name: str = CLIENT_NAME) -> None:
        require_files(settings)
        self.settings = settings
        self._client = LazyClient(settings, client_name)
        self._claim, self._view = (Script("check_keys.lua", "read_rows.lua", name) for name in ("claim.lua", "view.lua"))
        self._load, self._compare_and_set = Script("load.lua"), Script("compare_and_set.lua")
        self._pipelined = PipelinedReads()
        self._largest: dict[int, float] = {}
        """Claimed task -> size in bytes of the largest user state it ever had; inf if unknown."""
        self._meta, self._settled = (f"{{{settings.namespace}:meta}}:{name}" for name in ("meta", "settled"))

    def claim(self, task: int, token: str) -> Claim:
        keys = self._keys(task)
        reply = self._call(lambda client: self._claim(client, keys, (token, LAYOUT_VERSION)))
        require_complete(task, self.settings.namespace, reply)
        claim, self._largest[task] = claimed(reply)
        return claim

    def owner(self, task: int) -> str | None:
        token = self._call(lambda client: send(client, "HGET", self._keys(task).ctl, "token"))
        return None if token is None else token.decode()

    def load(
        self,
        task: int,
        users: Collection[str],
        due: DueQuery | None = None,
        totals: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> LoadedUsers:
        """See `Store.load`. Without due users and with room for all, it sends HMGET, which costs Redis less than the script."""
        keys, state_users, total_users = self._keys(task), list(users), list(totals)
        if due is None and self._fits(task, len(state_users), bytes_max):
            wanted = [(keys.users, list(map(field_of, state_users))), (keys.totals, list(map(field_of, total_users)))]
            states, sums = self._call(lambda client: _read(client, wanted))
            return LoadedUsers(self._complete(keys, present(state_users, states)), [], None, present(total_users, sums))
        reply = self._load_by_script(keys, state_users, due or NO_DUE, total_users, BYTES_MAX if bytes_max is None else bytes_max)
        return reply if due is not None else replace(reply, next_due_ms=None)

    def _load_by_script(
        self, keys: TaskKeys, users: Sequence[str], due: DueQuery, totals: Sequence[str] = (), bytes_max: int = BYTES_MAX
    ) -> LoadedUsers:
        fields = [field_of(user) for user in (*users, *totals)]
        args: tuple[str | int, ...] = (READ_SLICE, *due, bytes_max, len(users), *fields)
        return loaded(users, totals, self._call(lambda client: self._load(client, _read_keys(keys), args)))

    def _complete(self, keys: TaskKeys, states: dict[str, bytes]) -> dict[str, bytes]:
        """Read growing states again, with their pieces. The others are complete."""
        growing = [user for user, state in states.items() if state.startswith(GROWS)]
        if growing:
            for user in growing:
                del states[user]
            states |= self._load_by_script(keys, growing, NO_DUE).users
        return states

    def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
        """See `Store.request`. Returns None for too many users, and for users that may be too large."""
        keys, names = self._keys(task), list(users)
        if len(names) > FIELDS_MAX or not self._fits(task, len(names), bytes_max):
            return None
        command = ("HMGET", keys.users, *map(field_of, names))
        return self._prefetch(keys.users, command, lambda states: self._complete(keys, present(names, states)))

    def request_due(self, task: int, due: DueQuery) -> PendingDueUsers | None:
        """See `Store.request_due`. The reply is lost if the server does not know the script yet."""
        keys = self._keys(task)
        command = self._load.command(_read_keys(keys), (READ_SLICE, *due, BYTES_MAX, 0))
        return self._prefetch(keys.due, command, lambda reply: loaded([], [], reply))

    def _prefetch(self, key: str, command: Command, decode: Callable[[Any], ReplyT]) -> Callable[[], ReplyT | None] | None:
        """Send a command now. Returns a function that reads and decodes the reply."""
        try:
            pending = self._pipelined.send(self._client.get(), key, command)
        except (RedisError, RedisClusterException, OSError):
            return None

        def receive() -> ReplyT | None:
            with explaining_errors(self.settings):
                reply = self._pipelined.read(pending)
            return None if reply is None else decode(reply)

        return receive

    def _fits(self, task: int, users: int, bytes_max: int | None) -> bool:
        """Return whether any `users` states have at most `bytes_max` bytes together."""
        return bytes_max is None or not users or self._largest.get(task, inf) <= bytes_max // users

    def commit(self, commit: Commit) -> CommitOutcome:
        """See `Store.commit`. Either all changes are written, or none.

        Raises StateError when a key is missing that a claim has created. The commit would create it again, with only its own changes.
        """
        keys = self._keys(commit.task)
        pieces = [piece.state_bytes for piece in commit.changes.pieces.values()]
        largest = max(self._largest.get(commit.task, inf), *map(len, commit.changes.users.values()), *pieces, 0)
        self._largest[commit.task] = largest
        commands = writes(keys, commit, largest)

        sized = keys[1:]
        reads = [("HMGET", keys.ctl, "epoch", "token", "seq"), *(("ZCARD" if key == keys.due else "HLEN", key) for key in sized)]

        def decide(stored: Sequence[Any]) -> tuple[CommitOutcome, Sequence[Command]]:
            (epoch, token, seq), *sizes = stored
            outcome = commit.check(int(epoch or 0), None if token is None else token.decode(), int(seq or 0))
            if outcome is not CommitOutcome.WRITTEN:
                return outcome, ()
            if gone := [key for key, size in zip(sized, sizes, strict=True) if not size]:
                raise lost_keys(commit.task, gone)
            return outcome, commands

        return self._call(lambda client: transact(client, keys, reads, decide))

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        rows_from: Mapping[int, Mapping[str, int]] = NO_BOUNDS,
        tables: Collection[str] | None = None,
    ) -> Mapping[int, TaskView]:
        """See `Store.view`. Each task is read at one instant; different tasks may be read at different instants."""
        wanted, of_tables = list(tasks), ("1",) if tables is None else ("0", *tables)
        requests = []
        for task in wanted:
            keys, marks = self._keys(task), map(str, since.get(task, ("", "")))
            args = [*marks, bounds_text(rows_from.get(task, {})), LAYOUT_VERSION, *of_tables]
            requests.append(((keys.ctl, keys.users, keys.rows), args))
        replies = self._call(lambda client: self._views(client, requests))
        views = {}
        for task, reply in zip(wanted, replies, strict=True):
            if reply is not None:
                require_complete(task, self.settings.namespace, reply)
                views[task] = viewed(reply)
        return views

    def _views(self, client: Client, requests: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Any]:
        if isinstance(client, redis.RedisCluster):  # its pipeline does not accept scripts
            return [send(client, *self._view.whole_command(keys, args)) for keys, args in requests]
        replies: list[Any] = []
        for start in range(0, len(requests), VIEWS_MAX):
            with client.pipeline(transaction=False) as pipeline:
                for keys, args in requests[start : start + VIEWS_MAX]:
                    send(pipeline, *self._view.whole_command(keys, args))
                replies += replies_of(pipeline)
        return replies

    def announce(self, partitions: int) -> int | None:
        first = self._call(lambda client: send(client, "HSETNX", self._meta, "partitions", partitions))
        return None if first else self.partitions()

    def partitions(self) -> int | None:
        reply = self._call(lambda client: send(client, "HGET", self._meta, "partitions"))
        return None if reply is None else int(reply)

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        """See `Store.compare_and_set`. The script is sent whole, because a user that may only read tasks may not use EVALSHA."""
        args = [part for name, (before, after) in changes.items() for part in (name, *_optional(before), *_optional(after))]
        reply = self._call(lambda client: send(client, *self._compare_and_set.whole_command([self._settled], args)))
        return {name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)}

    def clock_ms(self, task: int) -> int | None:
        """See `Store.clock_ms`. Returns None if the server does not allow it."""

        def request(client: Client) -> Any:
            try:
                return send(client, "EVAL", CLOCK, 1, self._keys(task).ctl)
            except ClusterError:
                raise
            except ResponseError:
                return None

        reply = self._call(request)
        return None if reply is None else int(reply[0]) * 1_000 + int(reply[1]) // 1_000

    def try_commit(self) -> None:
        """Try each command of claims and commits, without an effect. Raises StoreError for one that may not be used."""
        keys = self._keys(0)
        commands = [(name, keys.ctl, *arguments) for name, *arguments in COMMANDS]

        def attempt(client: Client) -> None:
            send(client, "EVAL", "return 1", 1, keys.ctl)
            with contextlib.suppress(NoScriptError):
                send(client, "EVALSHA", "0" * 40, 1, keys.ctl)
            rehearse(client, keys.ctl, commands)

        self._call(attempt)

    def ping(self) -> None:
        """See `Store.ping`. In a cluster every primary must answer."""

        def ping(client: Client) -> None:
            if isinstance(client, redis.RedisCluster):
                client.ping(target_nodes=redis.RedisCluster.PRIMARIES)
            else:
                client.ping()

        self._call(ping)

    def server_info(self) -> ServerInfo:
        """Return the settings of the server, or of all primaries of a cluster. Raises StoreError."""
        return merged(self._server_infos().values())

    def nodes(self) -> tuple[StoreNode, ...]:
        """See `Store.nodes`. The nodes are the server, or every primary of the cluster."""
        return tuple(
            StoreNode(place, info.used_memory, info.maxmemory, info.evicts, info.forgets, info.refusal)
            for place, info in sorted(self._server_infos().items())
        )

    def _server_infos(self) -> Mapping[str, ServerInfo]:
        return self._call(lambda client: read_server_info(client, place_of(self.settings)))

    def close(self) -> None:
        self._client.close()

    def _call(self, request: Callable[[Client], ReplyT]) -> ReplyT:
        with explaining_errors(self.settings):
            return request(self._client.get())

    def _keys(self, task: int) -> TaskKeys:
        return TaskKeys.of(self.settings.namespace, task)


def _read(client: Client, wanted: Sequence[tuple[str, Sequence[str]]]) -> list[list[bytes | None]]:
    """Read fields of several hashes in one slot, in one round trip."""
    slices = [
        (number, key, fields[start : start + FIELDS_MAX])
        for number, (key, fields) in enumerate(wanted)
        for start in range(0, len(fields), FIELDS_MAX)
    ]
    replies: list[list[bytes | None]] = [[] for _ in wanted]
    if len(slices) == 1:
        number, key, part = slices[0]
        replies[number] = list(send(client, "HMGET", key, *part))
    elif slices:
        with client.pipeline(transaction=False) as pipeline:
            for _, key, part in slices:
                send(pipeline, "HMGET", key, *part)
            for (number, _, _), values in zip(slices, pipeline.execute(), strict=True):
                replies[number] += values
    return replies


def _read_keys(keys: TaskKeys) -> tuple[str, str, str, str]:
    return keys.users, keys.due, keys.totals, keys.pieces


def _optional(value: bytes | None) -> tuple[int, bytes]:
    """Encode a value as whether it exists, and its bytes."""
    return (0, b"") if value is None else (1, value)
