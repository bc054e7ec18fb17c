"""Tests of the risks in a server's settings. Other tests read settings from real servers."""

from __future__ import annotations

import pytest

from streammetrics.connectors.redis.server_info import ServerInfo, require_complete
from streammetrics.errors import StateError

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


def test_complete_state_is_accepted() -> None:
    require_complete(0, "sm", [b"3", b"1", b"0", None, [], [], [], [], None])


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ([None], "has lost all state of task 7"),
        ([b"99"], r"task 7 in redis\.namespace = sm have layout 99.*start again with a new redis\.namespace"),
        ([b"3", [b"{sm:7}:due"]], r"lost a part of the state of task 7: \{sm:7\}:due is missing.*restore"),
        ([None, [b"{sm:7}:due", b"{sm:7}:panes"]], r"\{sm:7\}:panes are present, but .*namespaces delete sm"),
    ],
    ids=["no state", "other layout", "missing key", "left-over keys"],
)
def test_incomplete_state_is_refused_with_a_fix(reply: list[object], message: str) -> None:
    with pytest.raises(StateError, match=message):
        require_complete(7, "sm", reply)
