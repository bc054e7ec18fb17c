"""What of a Redis is fit for state, told from facts alone. That servers tell them so is tested against real ones."""

from __future__ import annotations

from streammetrics.connectors.redis.server_info import ServerInfo

EVICTING = ServerInfo(maxmemory_policy="allkeys-lru", appendonly="no", save="")


def test_eviction_is_refused_until_it_is_allowed_and_its_mend_then_says_no_more_that_it_may_be() -> None:
    (refused, _), (allowed, _) = EVICTING.risks(allow_eviction=False), EVICTING.risks(allow_eviction=True)
    assert (refused.setting, refused.value, refused.is_refused) == ("maxmemory-policy", "allkeys-lru", True)
    assert refused.fix.endswith("; or go on at that risk with --allow-eviction (redis.allow_eviction)")
    assert allowed == refused._replace(fix=refused.fix.partition("; or go on")[0], is_refused=False)


def test_a_server_that_begins_empty_is_a_risk_that_one_may_take() -> None:
    for allow_eviction in (False, True):
        _, forgets = EVICTING.risks(allow_eviction)
        assert (forgets.setting, forgets.value, forgets.is_refused) == ("appendonly", "no", False)


def test_what_a_server_does_not_say_is_no_risk() -> None:
    assert ServerInfo().risks(allow_eviction=False) == ()
