"""A commit is checked and written on one connection. Whatever happens between, all of it is written or it is checked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.redis.pipelines import transact
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.errors import StateError, StoreError
from streammetrics.state.tables import GROWS, StatePiece
from tests.support.faults import EXECUTED, JUDGED, ReplyThief
from tests.support.store_contract import Owner, everything
from tests.tools.servers.process import HOST
from tests.tools.servers.redis import RedisCluster, RedisServer

CHANGES: dict[str, Any] = {
    "users": {"a": b"2", "b": GROWS},
    "pieces": {"b": StatePiece(1, b"2", 2)},
    "pieces_gone": {"c": 1},
    "due": {"a": 5},
    "users_gone": ["c"],
    "rows": {"panes": {"1": b"q"}, "sums": {"2": b"e"}},
    "rows_gone": {"panes": ["0"], "sums": ["1"]},
    "totals": {"a": b"2"},
    "totals_gone": ["c"],
}
USERS = ["a", "b", "c"]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A separate Redis, because these tests change its users and inspect its connections."""
    with RedisServer(append_only=False) as server:
        yield server


@pytest.fixture
def store(server: RedisServer, namespace: str) -> Iterator[RedisStore]:
    store = RedisStore(RedisSettings(url=server.url, namespace=namespace, socket_timeout_ms=500))
    yield store
    store.close()


@pytest.fixture
def owner(store: RedisStore) -> Owner:
    owner = Owner(store, 0)
    rows = {"panes": {"0": b"p"}, "sums": {"1": b"e"}}
    owner.must_commit(users={"a": b"1", "c": b"1"}, due={"a": 1, "c": 1}, totals={"c": b"1"}, rows=rows)
    return owner


def close_connections(store: RedisStore) -> None:
    pool: Any = store._client.get().connection_pool  # type: ignore[union-attr]  # the client of a single server
    pool.disconnect()


class Interrupted(Commit):
    """A commit that runs an action after each check, before anything is written."""

    actions: list[Callable[[], object]]
    outcomes_seen: list[CommitOutcome]

    def __init__(self, commit: Commit, *actions: Callable[[], object]) -> None:
        super().__init__(**{field.name: getattr(commit, field.name) for field in fields(commit)})
        vars(self).update(actions=list(actions), outcomes_seen=[])  # the dataclass is frozen

    def check(self, epoch: int, token: str | None, seq: int) -> CommitOutcome:
        self.outcomes_seen.append(super().check(epoch, token, seq))
        if self.actions:
            self.actions.pop(0)()
        return self.outcomes_seen[-1]


def test_the_decision_gets_the_values_read(server: RedisServer) -> None:
    with server.client() as client:
        client.hset("k", "f", "v")
        reads = [("HMGET", "k", "f", "g"), ("HLEN", "k")]
        assert transact(client, ["k"], reads, lambda seen: (seen, [("HSET", "k", "f", "w")])) == [["v", None], 1]
        assert transact(client, ["k"], [("HGET", "k", "f")], lambda seen: (seen, ())) == ["w"]


def test_an_owner_that_loses_its_task_before_the_write_writes_nothing(store: RedisStore, owner: Owner) -> None:
    before = everything(store, 0, USERS)
    commit = Interrupted(owner.next(**CHANGES), lambda: store.claim(0, "heir"))
    assert store.commit(commit) is CommitOutcome.FENCED
    assert commit.outcomes_seen == [CommitOutcome.WRITTEN, CommitOutcome.FENCED]
    assert everything(store, 0, USERS) == before


def test_a_connection_closed_before_the_write_does_not_write_unwatched(store: RedisStore, owner: Owner) -> None:
    """When a cluster changes, the client closes connections that other threads use, and reconnects by itself."""
    before = everything(store, 0, USERS)

    def lose() -> None:
        store.claim(0, "heir")
        close_connections(store)

    assert store.commit(Interrupted(owner.next(**CHANGES), lose)) is CommitOutcome.FENCED
    assert everything(store, 0, USERS) == before


def test_a_connection_closed_before_the_write_is_retried(store: RedisStore, owner: Owner) -> None:
    commit = Interrupted(owner.next(**CHANGES), lambda: close_connections(store))
    assert store.commit(commit) is CommitOutcome.WRITTEN
    assert commit.outcomes_seen == [CommitOutcome.WRITTEN, CommitOutcome.WRITTEN]


def test_repeated_changes_by_others_are_an_error_to_retry_later(
    store: RedisStore, owner: Owner, server: RedisServer, namespace: str
) -> None:
    with server.client() as other:
        touches = [lambda: other.hset(TaskKeys.of(namespace, 0).ctl, "unknown", "field")] * 9
        with pytest.raises(StoreError, match="other clients kept changing the keys"):
            store.commit(Interrupted(owner.next(**CHANGES), *touches))
    owner.must_commit(**CHANGES)


@pytest.mark.parametrize(
    ("word", "outcomes"),
    [(EXECUTED, [CommitOutcome.ALREADY]), (JUDGED, [CommitOutcome.WRITTEN]), (b"+QUEUED", [CommitOutcome.WRITTEN, CommitOutcome.ALREADY])],
    ids=["result", "values read", "queued"],
)
def test_a_commit_counts_once_whichever_reply_is_lost(
    server: RedisServer, namespace: str, word: bytes, outcomes: list[CommitOutcome]
) -> None:
    with ReplyThief(server.port) as thief:
        store = RedisStore(RedisSettings(url=f"redis://{HOST}:{thief.port}/0", namespace=namespace))
        owner = Owner(store, 0)
        owner.must_commit(users={"a": b"1", "c": b"1"})
        thief.steal(word)
        assert store.commit(owner.next(**CHANGES)) in outcomes
        assert thief.satisfied
        assert store.commit(owner.next(**CHANGES)) is CommitOutcome.ALREADY
        assert owner.load(USERS).users == {"a": b"2", "b": GROWS + b"2"}
        assert owner.view().mark.seq == 2
        store.close()


@pytest.mark.parametrize("right", ["hset", "hdel", "zadd", "zrem", "exec"])
def test_a_right_taken_away_after_the_claim_leaves_a_commit_unwritten(server: RedisServer, namespace: str, right: str) -> None:
    with server.client() as operator:
        operator.execute_command("ACL", "SETUSER", "worker", "on", ">word", "~*", "+@all")
        settings = RedisSettings(url=server.url, namespace=namespace, username="worker", password="word")
        store, reader = RedisStore(settings), RedisStore(RedisSettings(url=server.url, namespace=namespace))
        owner = Owner(store, 0)
        owner.must_commit(users={"c": b"1"}, due={"c": 1}, rows={"panes": {"0": b"p"}})
        before = everything(reader, 0, USERS)
        operator.execute_command("ACL", "SETUSER", "worker", f"-{right}")
        with pytest.raises(StoreError, match=r"grant redis\.username"):
            store.commit(owner.next(**CHANGES))
        assert everything(reader, 0, USERS) == before
        operator.execute_command("ACL", "SETUSER", "worker", f"+{right}")
        owner.must_commit(**CHANGES)
        store.close()
        reader.close()


def test_a_partial_commit_is_reported_and_not_retried(server: RedisServer) -> None:
    outcomes_seen = []

    def decide(seen: list[Any]) -> tuple[None, list[tuple[str, ...]]]:
        outcomes_seen.append(seen)
        return None, [("HSET", "k", "f", "v"), ("HSET", "unwatched", "f", "v")]

    with server.client() as client:
        client.set("unwatched", "another program's")
        with pytest.raises(StateError, match=r"ran only a part of a commit \(.*WRONGTYPE.*start again with a new redis\.namespace"):
            transact(client, ["k"], [], decide)
        assert client.hgetall("k") == {"f": "v"}
    assert outcomes_seen == [[]]


@pytest.mark.parametrize("name", TaskKeys._fields)
def test_a_key_replaced_by_another_program_before_the_write_stops_the_commit(
    store: RedisStore, owner: Owner, server: RedisServer, namespace: str, name: str
) -> None:
    with server.client() as other:
        keys = TaskKeys.of(namespace, 0)
        before = {key: other.dump(key) for key in keys}
        commit = Interrupted(owner.next(**CHANGES), lambda: other.set(getattr(keys, name), "another program's"))
        with pytest.raises(StateError, match=r"keys of another program \(WRONGTYPE"):
            store.commit(commit)
        assert {key for key in keys if other.dump(key) != before[key]} == {getattr(keys, name)}


def test_a_connection_is_released_without_watches_or_queued_commands(store: RedisStore, owner: Owner, server: RedisServer) -> None:
    """The next user of the connection must not inherit them, whatever the outcome."""

    def answers() -> Iterator[object]:
        yield owner.commit(**CHANGES)
        yield owner.commit(seq=owner.seq)
        yield owner.commit(seq=99)
        yield owner.commit(epoch=0)
        with server.client() as client:
            client.config_set("maxmemory", "1mb")
            with pytest.raises(StoreError, match="raise Redis' maxmemory"):
                owner.commit(**CHANGES)
            yield "refused"
            client.config_set("maxmemory", "0")
        server.hang()
        with pytest.raises(StoreError, match=r"redis\.socket_timeout_ms"):
            owner.commit(**CHANGES)
        server.resume()
        yield "timed out"

    for answer in answers():
        with server.client() as client:
            clients_of_ours = [other for other in client.client_list() if other["name"] == "streammetrics"]
            assert [other["multi"] for other in clients_of_ours] == ["-1"] * len(clients_of_ours), answer
            assert len(clients_of_ours) <= 1, answer
        store.ping()
    pool: Any = store._client.get().connection_pool  # type: ignore[union-attr]
    assert len(pool._in_use_connections) == 0
    assert all(connection._connect_callbacks == [] for connection in pool._available_connections)


def test_thousands_of_changes_are_queued_in_small_commands(owner: Owner, server: RedisServer) -> None:
    users = {f"user-{number}": b"x" * 100 for number in range(3_000)}
    with server.client() as client:
        client.config_resetstat()
        owner.must_commit(users=users, due=dict.fromkeys(users, 1), totals=users)
        owner.must_commit(users_gone=list(users), totals_gone=list(users))
        calls = {
            name: client.info("commandstats").get(f"cmdstat_{name}", {}).get("calls") for name in ("hset", "zadd", "hdel", "zrem", "eval")
        }
    assert calls == {"hset": 2 + 24 + 24, "zadd": 24, "hdel": 12 + 12, "zrem": 12, "eval": None}


# -- a cluster ---------------------------------------------------------------------------------------------------------


def test_a_slot_that_moves_before_the_write_is_followed(redis_cluster: RedisCluster, namespace: str) -> None:
    store = RedisStore(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True))
    owner = Owner(store, 0)
    owner.must_commit(users={"c": b"1"})
    commit = Interrupted(owner.next(**CHANGES), lambda: redis_cluster.move(TaskKeys.of(namespace, 0).ctl))
    assert store.commit(commit) is CommitOutcome.WRITTEN
    assert commit.outcomes_seen == [CommitOutcome.WRITTEN] * 2
    owner.seq += 1
    assert owner.load(USERS).users == {"a": b"2", "b": GROWS + b"2"}
    owner.must_commit()
    store.close()


def test_a_store_with_an_outdated_slot_map_updates_it(redis_cluster: RedisCluster, namespace: str) -> None:
    store = RedisStore(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True))
    owner = Owner(store, 1)
    for _ in range(3):
        redis_cluster.move(TaskKeys.of(namespace, 1).ctl)
        owner.must_commit(users={"c": b"1"})
    store.close()


@pytest.mark.parametrize("moved", TaskKeys._fields)
def test_nothing_seems_lost_while_only_some_keys_have_moved(redis_cluster: RedisCluster, namespace: str, moved: str) -> None:
    """Each of the two nodes answers as if the other's keys did not exist."""
    store = RedisStore(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True))
    owner, keys = Owner(store, 0), TaskKeys.of(namespace, 0)
    owner.must_commit(users={"c": b"1"}, due={"c": 1}, totals={"c": b"1"}, rows={"panes": {"0": b"p"}, "sums": {"1": b"e"}})
    before = everything(store, 0, USERS)
    refused = {
        "commit": lambda: store.commit(owner.next(**CHANGES)),
        "claim": lambda: store.claim(0, "heir"),
        "view": owner.view,
    }
    with redis_cluster.moving(keys.ctl) as move:
        move(getattr(keys, moved))
        for name, ask in refused.items():
            if name != "view" or moved in ("ctl", "users", "rows"):  # the keys that a view reads
                with pytest.raises(StoreError, match="streammetrics continues by itself when all have moved"):
                    ask()
    assert everything(store, 0, USERS) == before
    owner.must_commit(**CHANGES)
    assert owner.load(USERS).users == {"a": b"2", "b": GROWS + b"2"}
    store.close()


def test_a_key_deleted_before_the_write_is_an_error(store: RedisStore, owner: Owner, server: RedisServer, namespace: str) -> None:
    with server.client() as other:
        commit = Interrupted(owner.next(**CHANGES), lambda: other.delete(TaskKeys.of(namespace, 0).totals))
        with pytest.raises(StateError, match="totals"):
            store.commit(commit)
    assert owner.load(USERS).users == {"a": b"1", "c": b"1"}


def test_the_clock_is_read_from_the_node_with_the_tasks_keys(namespace: str) -> None:
    with RedisCluster(3, append_only=False, settings={"cluster-require-full-coverage": "no"}) as cluster:
        store, key = RedisStore(RedisSettings(url=cluster.url, namespace=namespace, cluster=True)), TaskKeys.of(namespace, 0).ctl
        owner, former = Owner(store, 0), cluster.node_of(key)
        assert store.clock_ms(0) is not None
        cluster.move(key)
        former.kill()
        assert store.clock_ms(0) is not None
        owner.must_commit()
        store.close()
