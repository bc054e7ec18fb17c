"""Tests of the risks in a server's settings. Other tests read settings from real servers."""

from __future__ import annotations

from streammetrics.connectors.redis.server_info import ServerInfo

EVICTING = ServerInfo(maxmemory_policy="allkeys-lru", appendonly="no", save="")


def test_eviction_is_refused_until_it_is_allowed() -> None:
    (refused, _), (allowed, _) = EVICTING.risks(allow_eviction=False), EVICTING.risks(allow_eviction=True)
    assert (refused.setting, refused.value, refused.is_refused) == ("maxmemory-policy", "allkeys-lru", True)
    assert refused.fix.endswith("; or accept the risk with --allow-eviction (redis.allow_eviction)")
    assert allowed == refused._replace(fix=refused.fix.partition("; or accept")[0], is_refused=False)


def test_a_server_that_forgets_at_a_restart_is_a_warning() -> None:
    for allow_eviction in (False, True):
        _, forgets = EVICTING.risks(allow_eviction)
        assert (forgets.setting, forgets.value, forgets.is_refused) == ("appendonly", "no", False)


def test_unknown_settings_are_no_risk() -> None:
    assert ServerInfo().risks(allow_eviction=False) == ()
