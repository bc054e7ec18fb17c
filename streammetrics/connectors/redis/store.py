"""State in Redis or a Redis Cluster: a transaction for the commits of a task, a script for each other thing done to it; where it lies
is said in `layout`. Nothing here decodes a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from itertools import chain
from math import inf
from typing import Any, TypeVar

import redis
from redis.exceptions import ClusterError, NoScriptError, RedisClusterException, RedisError, ResponseError

from streammetrics.connectors.base import (
    NO_BOUNDS,
    READ_SLICE,
    Claim,
    Commit,
    CommitOutcome,
    DueQuery,
    LoadedUsers,
    PendingDueUsers,
    PendingUsers,
    StoreNode,
    lost_state,
)
from streammetrics.connectors.redis.client import Client, LazyClient, RedisConnection, answers_of, require_files, send, speaking
from streammetrics.connectors.redis.keys import (
    LAYOUT_VERSION,
    TaskKeys,
    cells_of,
    field_of,
    panes_of,
    present,
    user_of,
    writes,
)
from streammetrics.connectors.redis.pipelined_reads import PipelinedReads
from streammetrics.connectors.redis.server_info import ServerInfo, merged, read_facts
from streammetrics.connectors.redis.transaction import Command, transact
from streammetrics.engine.stored_state import CommitMark, TaskView
from streammetrics.errors import StateError

ReplyT = TypeVar("ReplyT")

__all__ = ["RedisConnection", "RedisStore", "ServerInfo"]

CLOCK = "return redis.call('TIME')"
"""Asked of the server that has a key: by itself TIME names none, and a cluster's client would not learn where the key has gone."""
FIELDS_MAX = 5_000
"""Users asked for by one HMGET, so that other clients get their turn."""
NOBODY_DUE = DueQuery(0, 0, 0)
BYTES_MAX = 1 << 50
"""More than any answer has: no bound."""
VIEWS_MAX = 32
"""Tasks read by one pipeline: bounds the memory of the answers."""


class Script:
    """A Lua script, sent by its digest and whole when the server does not know it (after a restart, failover, flush, slot move).

    The client's own `register_script` would load it on every primary of a cluster, and so fail while any of them is away.
    """

    def __init__(self, *names: str) -> None:
        """The files of these names, one after the other."""
        self.text = "\n".join(resources.files(__package__).joinpath("lua", name).read_text(encoding="utf-8") for name in names)
        self._digest = hashlib.sha1(self.text.encode()).hexdigest()

    def __call__(self, client: Client, keys: Sequence[str], args: Command) -> Any:
        try:
            return send(client, *self.command(keys, args))
        except NoScriptError:
            return send(client, "EVAL", self.text, len(keys), *keys, *args)

    def command(self, keys: Sequence[str], args: Command) -> Command:
        """What is sent to a server that knows the script."""
        return ("EVALSHA", self._digest, len(keys), *keys, *args)


class RedisStore:
    """A `Store` in Redis >= 6.2, Valkey or Redis Cluster; see `streammetrics.connectors.base`. Usable from several threads.

    Nothing is sent before the first call. Raises ConfigError when it is made with a certificate file that cannot be read;
    later StoreError when Redis cannot serve, StateError when keys of another program or layout stand in the way, or some are gone.
    """

    def __init__(self, settings: RedisConnection) -> None:
        require_files(settings)
        self.settings = settings
        self._client = LazyClient(settings)
        self._claim, self._view = Script("check_keys.lua", "claim.lua"), Script("check_keys.lua", "view.lua")
        self._load, self._compare_and_set = Script("load.lua"), Script("compare_and_set.lua")
        self._asked = PipelinedReads()
        self._largest: dict[int, float] = {}
        """By task that was claimed here: the bytes of the largest state that one of its users ever had."""
        self._meta, self._settled = (f"{{{settings.namespace}:meta}}:{name}" for name in ("meta", "settled"))

    def claim(self, task: int, token: str) -> Claim:
        keys = self._keys(task)
        answer = self._ask(lambda client: self._claim(client, keys, (token, LAYOUT_VERSION)))
        self._require_whole(task, answer)
        _, epoch, seq, control, starts, fields_read, values, cells, largest = answer
        self._largest[task] = int(largest) if largest is not None else 0 if control is None else inf
        panes, user_counts = panes_of(fields_read, values)
        return Claim(int(epoch), int(seq), control, panes, tuple(map(int, starts)), cells_of(cells), user_counts)

    def load(
        self,
        task: int,
        users: Collection[str],
        due: DueQuery | None = None,
        totals: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> LoadedUsers:
        """See `Store.load`. Users alone are read without a script, which costs Redis less, where none of them can be too large: only
        their owner writes them."""
        keys, asked, wanted = self._keys(task), list(users), list(totals)
        fields, total_fields = [field_of(user) for user in asked], [field_of(user) for user in wanted]
        if due is None and self._fit(task, len(asked), bytes_max):
            states, sums = self._ask(lambda client: _read(client, ((keys.users, fields), (keys.totals, total_fields))))
            return LoadedUsers(present(asked, states), [], None, present(wanted, sums))
        bounds = (*(due or NOBODY_DUE), BYTES_MAX if bytes_max is None else bytes_max)
        args: tuple[str | int, ...] = (READ_SLICE, *bounds, len(fields), *fields, *total_fields)
        loaded = _loaded(asked, wanted, self._ask(lambda client: self._load(client, _read_keys(keys), args)))
        return loaded if due is not None else replace(loaded, next_due_ms=None)

    def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
        """See `Store.request`: for the users of a chunk, none of whom can be too large."""
        key, wanted = self._keys(task).users, list(users)
        if len(wanted) > FIELDS_MAX or not self._fit(task, len(wanted), bytes_max):
            return None
        return self._prefetch(key, ("HMGET", key, *map(field_of, wanted)), lambda states: present(wanted, states))

    def request_due(self, task: int, due: DueQuery) -> PendingDueUsers | None:
        """See `Store.request_due`; a server that does not know the script, which happens once, does not tell."""
        keys = self._keys(task)
        command = self._load.command(_read_keys(keys), (READ_SLICE, *due, BYTES_MAX, 0))
        return self._prefetch(keys.due, command, lambda answer: _loaded([], [], answer))

    def _prefetch(self, key: str, command: Command, meaning: Callable[[Any], ReplyT]) -> Callable[[], ReplyT | None] | None:
        """Send a command now; what is answered is read, and its meaning told, when that is called."""
        try:
            question = self._asked.ask(self._client.get(), key, command)
        except (RedisError, RedisClusterException, OSError):
            return None

        def message() -> ReplyT | None:
            with speaking(self.settings):
                answer = self._asked.read(question)
            return None if answer is None else meaning(answer)

        return message

    def _fit(self, task: int, users: int, bytes_max: int | None) -> bool:
        """Whether the states of so many users cannot have more bytes together than wanted, whoever they are."""
        return bytes_max is None or not users or self._largest.get(task, inf) <= bytes_max // users

    def commit(self, commit: Commit) -> CommitOutcome:
        """See `Store.commit`. What is queued by MULTI goes through whole, or not at all when a key has changed since it was judged.

        Raises StateError when one of the other keys is gone, which a claim has made and nobody deletes: it would be made again with
        what this commit changes in it.
        """
        keys = self._keys(commit.task)
        largest = max(self._largest.get(commit.task, inf), *map(len, commit.changes.users.values()), 0)
        self._largest[commit.task] = largest
        commands = writes(keys, commit, largest)

        sized = keys[1:]
        looks = [("HMGET", keys.ctl, "epoch", "token", "seq"), *(("ZCARD" if key == keys.due else "HLEN", key) for key in sized)]

        def judge(stored: Sequence[Any]) -> tuple[CommitOutcome, Sequence[Command]]:
            (epoch, token, seq), *sizes = stored
            outcome = commit.check(int(epoch or 0), None if token is None else token.decode(), int(seq or 0))
            if outcome is not CommitOutcome.WRITTEN:
                return outcome, ()
            if gone := [key for key, size in zip(sized, sizes, strict=True) if not size]:
                raise _lost(commit.task, gone)
            return outcome, commands

        return self._ask(lambda client: transact(client, keys, looks, judge))

    def view(
        self,
        tasks: Collection[int],
        since: Mapping[int, CommitMark],
        panes_from_ms: Mapping[int, int | None],
        user_counts_from_ms: Mapping[int, int | None] = NO_BOUNDS,
    ) -> Mapping[int, TaskView]:
        """See `Store.view`; each task is seen as of one instant, several tasks as of several."""
        asked, bounds = list(tasks), (panes_from_ms, user_counts_from_ms)
        questions = [
            (
                self._keys(task),
                [*map(str, since.get(task, ("", ""))), *(_or_empty(bound.get(task)) for bound in bounds), LAYOUT_VERSION],
            )
            for task in asked
        ]
        answers = self._ask(
            lambda client: self._views(client, [((keys.ctl, keys.users, keys.panes, keys.experiments), args) for keys, args in questions])
        )
        views = {}
        for task, answer in zip(asked, answers, strict=True):
            if answer is not None:
                self._require_whole(task, answer)
                _, token, seq, is_snapshot, control, users, fields, values, cells = answer
                panes, user_counts = panes_of(fields, values)
                views[task] = TaskView(
                    CommitMark(token.decode(), int(seq)), control, panes, users, cells_of(cells), user_counts, bool(is_snapshot)
                )
        return views

    def _views(self, client: Client, questions: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Any]:
        if isinstance(client, redis.RedisCluster):  # its pipeline takes no scripts
            return [send(client, "EVAL", self._view.text, len(keys), *keys, *args) for keys, args in questions]
        answers: list[Any] = []
        for start in range(0, len(questions), VIEWS_MAX):
            with client.pipeline(transaction=False) as pipeline:
                for keys, args in questions[start : start + VIEWS_MAX]:
                    send(pipeline, "EVAL", self._view.text, len(keys), *keys, *args)
                answers += answers_of(pipeline)
        return answers

    def announce(self, partitions: int) -> int | None:
        first = self._ask(lambda client: send(client, "HSETNX", self._meta, "partitions", partitions))
        return None if first else self.partitions()

    def partitions(self) -> int | None:
        answer = self._ask(lambda client: send(client, "HGET", self._meta, "partitions"))
        return None if answer is None else int(answer)

    def compare_and_set(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Mapping[str, bytes]:
        """See `Store.compare_and_set`. The script is sent whole: whoever may only read tasks may not send its digest either."""
        args = [piece for name, (before, after) in changes.items() for piece in (name, *_said(before), *_said(after))]
        answer = self._ask(lambda client: send(client, "EVAL", self._compare_and_set.text, 1, self._settled, *args))
        return {name.decode(): value for name, value in zip(answer[::2], answer[1::2], strict=True)}

    def clock_ms(self, task: int) -> int | None:
        """See `Store.clock_ms`; a server that refuses the question does not say."""

        def request(client: Client) -> Any:
            try:
                return send(client, "EVAL", CLOCK, 1, self._keys(task).ctl)
            except ClusterError:
                raise
            except ResponseError:
                return None

        answer = self._ask(request)
        return None if answer is None else int(answer[0]) * 1_000 + int(answer[1]) // 1_000

    def ping(self) -> None:
        """See `Store.ping`; in a cluster every primary must answer."""

        def ping(client: Client) -> None:
            if isinstance(client, redis.RedisCluster):
                client.ping(target_nodes=redis.RedisCluster.PRIMARIES)
            else:
                client.ping()

        self._ask(ping)

    def facts(self) -> ServerInfo:
        """What the server (every primary of a cluster) says of itself; what it refuses to say is unknown. Raises StoreError."""
        return merged(self._facts().values())

    def nodes(self) -> tuple[StoreNode, ...]:
        """See `Store.nodes`: the server, or every primary of the cluster."""
        return tuple(
            StoreNode(place, facts.used_memory, facts.maxmemory, facts.evicts, facts.forgets)
            for place, facts in sorted(self._facts().items())
        )

    def _facts(self) -> Mapping[str, ServerInfo]:
        return self._ask(lambda client: read_facts(client, self.settings.place))

    def close(self) -> None:
        self._client.close()

    def _ask(self, question: Callable[[Client], ReplyT]) -> ReplyT:
        with speaking(self.settings):
            return question(self._client.get())

    def _keys(self, task: int) -> TaskKeys:
        return TaskKeys.of(self.settings.namespace, task)

    def _require_whole(self, task: int, answer: Sequence[Any]) -> None:
        """Raise StateError for what `claim.lua` and `view.lua`, and `check_keys.lua` for them, answer instead of what was read."""
        version, *keys = answer
        if not keys and version is None:
            raise lost_state(task)
        if not keys:
            raise StateError(
                f"the keys of task {task} under redis.namespace = {self.settings.namespace} have layout {version.decode()}, this program "
                f"knows layout {LAYOUT_VERSION}",
                "run the version that wrote them, or begin anew with a new redis.namespace",
            )
        if len(answer) == 2:
            names = [key.decode() for key in keys[0]]
            raise _lost(task, names) if version is not None else _left(task, names, self.settings.namespace)


def _lost(task: int, keys: Sequence[str]) -> StateError:
    return StateError(
        f"Redis has lost a part of the state of task {task}: {_named(keys)} gone, by eviction or by hand, and what would be counted on "
        "without would be wrong",
        "restore it from a backup, or begin anew with a new redis.namespace",
    )


def _left(task: int, keys: Sequence[str], namespace: str) -> StateError:
    return StateError(
        f"Redis holds a part of the state of task {task}: {_named(keys)} there, and the key that says how far it was counted is not; a "
        "deletion was broken off, or Redis has lost it",
        f"delete what is left with `streammetrics namespaces delete {namespace}`, or restore all of it from a backup",
    )


def _named(keys: Sequence[str]) -> str:
    """Keys with their verb.

    >>> _named(["{sm:0}:due"]), _named(["{sm:0}:due", "{sm:0}:panes"])
    ('{sm:0}:due is', '{sm:0}:due, {sm:0}:panes are')
    """
    return f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'}"


def _read(client: Client, questions: Sequence[tuple[str, Sequence[str]]]) -> list[list[bytes | None]]:
    """The values of fields of several hashes of one slot, in one round trip."""
    slices = [
        (number, key, fields[start : start + FIELDS_MAX])
        for number, (key, fields) in enumerate(questions)
        for start in range(0, len(fields), FIELDS_MAX)
    ]
    answers: list[list[bytes | None]] = [[] for _ in questions]
    if len(slices) == 1:
        number, key, part = slices[0]
        answers[number] = list(send(client, "HMGET", key, *part))
    elif slices:
        with client.pipeline(transaction=False) as pipeline:
            for _, key, part in slices:
                send(pipeline, "HMGET", key, *part)
            for (number, _, _), values in zip(slices, pipeline.execute(), strict=True):
                answers[number] += values
    return answers


def _read_keys(keys: TaskKeys) -> tuple[str, str, str]:
    return keys.users, keys.due, keys.totals


def _loaded(asked: Sequence[str], wanted: Sequence[str], answer: Sequence[Any]) -> LoadedUsers:
    """What `load.lua` answers to who asks for users and for totals."""
    members, due_sums, parts, sums, next_due = answer
    due, read = [user_of(member) for member in members], sum(map(len, parts))
    return LoadedUsers(
        present(asked[:read], chain.from_iterable(parts)),
        due,
        None if next_due is None else int(float(next_due)),
        present(wanted, chain.from_iterable(sums)) | present(due, chain.from_iterable(due_sums)),
        tuple(asked[read:]),
    )


def _said(value: bytes | None) -> tuple[int, bytes]:
    """Whether there is a value, and which."""
    return (0, b"") if value is None else (1, value)


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)
