"""redis.conf as a real Redis takes it, judged by what the product itself wants of a server."""

from __future__ import annotations

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from tests.tools.servers.redis import DEPLOYED_CONF, DeployedRedis


def test_a_server_with_redis_conf_has_no_problem_and_no_risk() -> None:
    with DeployedRedis() as server:
        store = RedisStore(RedisSettings(url=server.url))
        try:
            facts = store.server_info()
        finally:
            store.close()
    assert facts.problems(cluster=False) == ()
    assert facts.risks(allow_eviction=False) == ()
    assert facts.unknown == ()
    assert (facts.appendonly, facts.appendfsync, facts.save, facts.maxmemory_policy) == ("yes", "everysec", "", "noeviction")
    assert facts.maxmemory == 2 << 30


def test_every_setting_of_redis_conf_is_one_that_the_server_keeps() -> None:
    wanted = dict(line.split(" ", 1) for line in DEPLOYED_CONF.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")
    differing = {"port", "bind"}
    with DeployedRedis() as server, server.client() as client:
        kept = {name: client.config_get(name)[name] for name in wanted.keys() - differing}
    sizes = {"2gb": str(2 << 30), "256mb": str(256 << 20), '""': ""}
    assert kept == {name: sizes.get(value, value) for name, value in wanted.items() if name not in differing}
