"""Events are split by user: each process has its own users' events whole, and the times of all others."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, Feedback, native_decoder
from streammetrics.events.batches import of_shard
from streammetrics.events.model import Elsewhere

decode = native_decoder(EventLimits())


@given(users=st.lists(st.text(min_size=1, max_size=5).filter(str.isprintable), max_size=20), shards=st.integers(1, 5))
def test_each_event_is_whole_in_one_process_and_a_time_in_the_others(users: list[str], shards: int) -> None:
    for user in users:
        value = json.dumps({"type": "feedback", "user_id": user, "ts": 5, "item_id": "a", "action": "click"}).encode()
        events = [event for shard in range(shards) for event in of_shard(decode, shard, shards)(value)]
        assert [type(event) for event in events].count(Feedback) == 1
        assert {(event.user_id, event.ts) for event in events if not isinstance(event, MalformedEvent)} == {(user, 5)}
        assert [type(event) for event in events].count(Elsewhere) == shards - 1


def test_the_first_process_has_all_malformed_records() -> None:
    of_shards = [of_shard(decode, shard, 3)(b"{") for shard in range(3)]
    assert [len(events) for events in of_shards] == [1, 0, 0]
    assert isinstance(of_shards[0][0], MalformedEvent)
