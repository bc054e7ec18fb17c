"""Valkey in place of Redis: read as what it is, refused where Redis is, and exact. And servers that lack a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import Commit, CommitOutcome
from streammetrics.errors import StoreError
from streammetrics.state.tables import StateChanges
from tests.support.command_line import called
from tests.tools.servers.process import HOST, wait_until
from tests.tools.servers.redis import RedisServer, ValkeyServer

EXPORTER = ("--set", "worker.role=exporter", "--set", "http.port=0")


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


def test_its_settings_are_read_as_those_of_valkey(valkey: ValkeyServer) -> None:
    store = RedisStore(RedisSettings(url=valkey.url))
    info = store.server_info()
    store.close()
    assert (info.product, info.mode, info.role, info.unknown) == ("Valkey", "standalone", "master", ())
    assert info.version is not None
    assert info.version.startswith("9.")
    assert (info.problems(cluster=False), info.risks(allow_eviction=False)) == ((), ())


def test_doctor_finds_no_fault_with_it(valkey: ValkeyServer) -> None:
    done = called("doctor", "--set", f"redis.url={valkey.url}", *EXPORTER)
    assert "ok    Valkey 9." in done.stdout
    assert (done.returncode, "warn" in done.stdout, "unknown" in done.stdout) == (0, False, False), done.stdout


def test_what_was_committed_survives_its_death(valkey: ValkeyServer) -> None:
    store = RedisStore(RedisSettings(url=valkey.url, namespace="valkey"))
    store.try_commit()
    claim = store.claim(0, "mine")
    changes = StateChanges(b"control", {"panes": {"0": b"pane"}}, users={"u1": b"state"}, due={"u1": 5})
    assert store.commit(Commit(0, claim.epoch, "mine", claim.seq + 1, changes)) is CommitOutcome.WRITTEN
    valkey.kill()
    valkey.restart()
    assert store.load(0, ["u1"]).users == {"u1": b"state"}
    store.close()


def test_a_member_of_a_cluster_is_refused_without_the_setting_for_clusters() -> None:
    with ValkeyServer(cluster=True) as server:
        with server.client() as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16_383)
            wait_until(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok", what="the cluster serves its slots")
        options = ("--set", f"redis.url=redis://{HOST}:{server.port}/0", *EXPORTER)
        done = called("doctor", *options)
        assert done.returncode == 1
        assert "redis.cluster: false" in done.stdout
        assert "must be true, because the server belongs to a cluster" in done.stdout
        assert called("doctor", *options, "--set", "redis.cluster=true").returncode == 0


class Lacking(RedisServer):
    """A server without some commands, as services offer them."""

    def __init__(self, *gone: str) -> None:
        self._gone = gone
        super().__init__()

    def command(self) -> Sequence[str | Path]:
        return [*super().command(), *(part for name in self._gone for part in ("--rename-command", name, ""))]


@pytest.mark.parametrize("gone", [("WATCH",), ("EVAL",), ("EVALSHA",), ("MULTI",), ("EXEC",), ("ZADD",), ("HINCRBY",), ("CLIENT",)])
def test_a_command_that_every_commit_needs_is_missed_before_the_first_commit(gone: tuple[str, ...]) -> None:
    with Lacking(*gone) as server:
        store = RedisStore(RedisSettings(url=server.url))
        with pytest.raises(StoreError, match=rf"unknown command .{gone[0]}.*every worker needs this command"):
            store.try_commit()
        store.close()


def test_a_user_without_the_right_to_a_command_is_told_which(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.execute_command("ACL SETUSER", "short", "on", ">word", "~*", "+@all", "-zrem")
    redis_settings = RedisSettings(url=redis_server.url, username="short", password="word")
    store = RedisStore(redis_settings)
    with pytest.raises(StoreError, match=r"zrem.*grant redis\.username this command"):
        store.try_commit()
    store.close()


def test_trying_changes_nothing(redis_server: RedisServer) -> None:
    store = RedisStore(RedisSettings(url=redis_server.fresh_url(), namespace="untouched"))
    store.try_commit()
    assert store.partitions() is None
    with redis_server.client() as client:
        assert client.keys("*untouched*") == []
    store.close()
