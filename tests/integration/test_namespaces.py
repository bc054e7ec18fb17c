"""Tests of `streammetrics namespaces` with a real Redis and a real cluster."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest
import redis

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import place_of
from streammetrics.connectors.redis.namespaces import SCAN_COUNT, RedisNamespaces, client_name
from streammetrics.connectors.redis.shared_values import RedisBlobStore
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.state.tables import StateChanges
from tests.support.command_line import COMMAND, called, environment
from tests.support.paths import ROOT
from tests.tools.servers.redis import RedisCluster, RedisServer

TASKS = 5
KEYS = TASKS * 6 + 3
"""Six per task; three per namespace: its size, the frozen scales, and the history."""
USERS = {f"user-{number}": b"x" * 300 for number in range(500)}


def fill(settings: RedisSettings) -> None:
    """Store the state of a worker and an exporter."""
    store, shelf = RedisStore(settings), RedisBlobStore(settings, "history")
    store.announce(TASKS)
    store.compare_and_set({"one": (None, b"value")})
    shelf.write(b"looks")
    for task in range(TASKS):
        claim = store.claim(task, "token")
        commit = Commit(
            task, claim.epoch, "token", 1, StateChanges(b"control", {"panes": {"0": b"pane"}}, users=USERS, due=dict.fromkeys(USERS, 5))
        )
        assert store.commit(commit) is CommitOutcome.WRITTEN
    store.close()
    shelf.close()


def words(settings: RedisSettings) -> list[str]:
    return ["--set", f"redis.url={settings.url.get_secret_value()}", "--set", f"redis.cluster={str(settings.cluster).lower()}"]


def listed(settings: RedisSettings) -> dict[str, list[str]]:
    """The table: namespace -> its other cells."""
    done = called("namespaces", "list", *words(settings))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


@pytest.fixture(params=["standalone", "cluster"])
def place(request: pytest.FixtureRequest, redis_server: RedisServer) -> RedisSettings:
    """An empty Redis."""
    if request.param == "standalone":
        return RedisSettings(url=redis_server.fresh_url())
    cluster: RedisCluster = request.getfixturevalue("redis_cluster")
    for node in cluster.nodes:
        with node.client() as client:
            client.flushall()
    return RedisSettings(url=cluster.url, cluster=True)


@pytest.fixture
def names(place: RedisSettings, namespace: str) -> tuple[RedisSettings, RedisSettings]:
    """Two namespaces, of which one's name begins as the other's whole name and a colon; and keys of another program."""
    one, other = (place.model_copy(update={"namespace": name}) for name in (namespace, f"{namespace}:0"))
    pair = one, other
    for settings in pair:
        fill(settings)
    with connected(place) as client:
        for key in ("other", "{other:1}:thing", f"{{{namespace}}}:x", f"x{{{namespace}:1}}:ctl", f"{{{namespace}:1}}:ctl:x"):
            client.set(key, "1")
    return pair


def connected(settings: RedisSettings) -> redis.Redis | redis.RedisCluster:
    kind = redis.RedisCluster if settings.cluster else redis.Redis
    return kind.from_url(settings.url.get_secret_value())


def all_keys(settings: RedisSettings) -> set[bytes]:
    with connected(settings) as client:
        return set(client.scan_iter(count=1_000))


class TestList:
    def test_it_lists_every_namespace_and_nothing_else(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        namespaces = listed(names[0])
        assert set(namespaces) == {names[0].namespace, names[1].namespace}
        for tasks, keys, size, user in namespaces.values():
            assert (tasks, keys) == (str(TASKS), str(KEYS))
            assert user == "-"
            number, unit = size.split()
            assert TASKS * len(USERS) * 300 < float(number) * {"kB": 1_000, "MB": 1_000_000}[unit] < TASKS * len(USERS) * 300 * 3

    def test_it_shows_the_connected_processes(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        stores = [RedisStore(names[1], client_name(role, names[1].namespace)) for role in ("all", "exporter")]
        for store in stores:
            store.ping()
        assert listed(names[0])[names[1].namespace][-1] == "exporter at 127.0.0.1, worker at 127.0.0.1"
        for store in stores:
            store.close()

    def test_an_empty_store_has_a_message(self, place: RedisSettings) -> None:
        done = called("namespaces", "list", *words(place))
        assert (done.returncode, done.stdout) == (0, f"no namespace in Redis at {place_of(place)}\n")


class TestDelete:
    def test_it_deletes_only_the_given_namespace(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        gone, kept = names
        before = all_keys(gone)
        done = called("namespaces", "delete", gone.namespace, "--yes", *words(gone))
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(rf"deleted namespace {gone.namespace}: {KEYS} keys, [\d.]+ [kM]B freed\n", done.stdout)
        left = all_keys(kept)
        assert len(before - left) == KEYS
        assert all(re.match(rb"\{%s:(\d|meta)\}:" % gone.namespace.encode(), key) for key in before - left)
        assert set(listed(kept)) == {kept.namespace}
        assert RedisStore(kept).claim(0, "next").seq == 1

    def test_the_rest_of_an_interrupted_deletion_can_be_deleted(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        store = RedisNamespaces(names[0])
        (namespace, *_) = [one for one in store.find(lambda *_: None) if one.name == names[0].namespace]
        with connected(names[0]) as client:
            for keys, _ in zip(namespace.in_order_of_deletion(), range(TASKS - 1), strict=False):
                client.unlink(*keys)
        store.close()
        assert called("namespaces", "delete", names[0].namespace, "--yes", *words(names[0])).returncode == 0
        assert set(listed(names[0])) == {names[1].namespace}

    def test_an_unknown_namespace_exits_with_1_and_lists_the_known_ones(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        before = all_keys(names[0])
        done = called("namespaces", "delete", "another", "--yes", *words(names[0]))
        assert done.returncode == 1
        assert f"it has {names[0].namespace}, {names[1].namespace}" in done.stderr
        assert called("namespaces", "delete", "other", "--yes", *words(names[0])).returncode == 1
        assert all_keys(names[0]) == before

    def test_a_namespace_in_use_is_rejected_unless_forced(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        gone = names[0]
        worker = RedisStore(gone, client_name("worker", gone.namespace))
        claim = worker.claim(0, "mine")
        before = all_keys(gone)
        done = called("namespaces", "delete", gone.namespace, "--yes", *words(gone))
        assert done.returncode == 1
        assert "in use by worker at 127.0.0.1; stop them first" in done.stderr
        assert all_keys(gone) == before
        assert called("namespaces", "delete", gone.namespace, "--yes", "--force", *words(gone)).returncode == 0
        assert worker.commit(Commit(0, claim.epoch, "mine", claim.seq + 1, StateChanges(b""))) is CommitOutcome.CONFLICT
        worker.close()

    def test_without_a_terminal_it_requires_yes(self, names: tuple[RedisSettings, RedisSettings]) -> None:
        before = all_keys(names[0])
        done = called("namespaces", "delete", names[0].namespace, *words(names[0]))
        assert done.returncode == 2
        assert "give --yes" in done.stderr
        assert all_keys(names[0]) == before


def on_a_terminal(answer: bytes, *given: str) -> tuple[int, str]:
    """Run a command on its own terminal with this input; return its exit code and output."""
    ours, its = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, *given], stdin=its, stdout=its, stderr=its, cwd=ROOT, env=environment({"TERM": "xterm"})
        ) as process:
            os.close(its)
            os.write(ours, answer)
            output = b""
            while True:
                try:
                    some = os.read(ours, 65_536)
                except OSError:  # no writer is left
                    break
                if not some:
                    break
                output += some
        return process.returncode, output.decode()
    finally:
        os.close(ours)


def test_on_a_terminal_it_asks_and_shows_progress(redis_server: RedisServer, namespace: str) -> None:
    settings = RedisSettings(url=redis_server.fresh_url(), namespace=namespace)
    fill(settings)
    with connected(settings) as client:
        client.mset({f"other-{number}": "1" for number in range(2 * SCAN_COUNT)})
    before = all_keys(settings)
    given = ("namespaces", "delete", namespace, *words(settings))
    code, output = on_a_terminal(b"n\n", *given)
    assert code == 1
    assert f"Delete namespace {namespace} ({KEYS} keys, " in output
    assert all_keys(settings) == before
    code, output = on_a_terminal(b"y\n", *given)
    assert code == 0
    assert "━" in output
    assert f"{KEYS}/{KEYS}" in output
    assert len(all_keys(settings)) == 2 * SCAN_COUNT
