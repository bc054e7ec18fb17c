"""Tests of the errors for tasks with another layout, or with missing or left-over keys."""

from __future__ import annotations

import pytest

from streammetrics.connectors.redis.server_info import require_complete
from streammetrics.errors import StateError


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
