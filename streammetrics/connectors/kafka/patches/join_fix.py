"""Keep the result of a group join until the next poll uses it.

Works around: the client joins in the background, and `poll` waits for the join up to its timeout. When the join ends between two
polls, the client throws the result away and joins again.
Without it: each new join by the group's leader starts a new rebalance for every member, and that join may end between two polls again.
Busy members were seen to repeat this for half a minute.
Private names: `_coordinator`, `_do_join_and_sync_async`, `_on_join_complete_async`, `_generation`.
Delete it when: `tests/connectors/kafka/patches/test_join_fix.py::TestStillNeeded` fails.
"""

from __future__ import annotations

from typing import Any

import structlog
from kafka import KafkaConsumer

log = structlog.get_logger("streammetrics.kafka")


def install(consumer: KafkaConsumer) -> None:
    """Make the next poll use a join that ended since the last one."""
    try:
        coordinator = consumer._coordinator
        join, complete = coordinator._do_join_and_sync_async, coordinator._on_join_complete_async
        # The client's thread reads these later, where an error would end the membership. Check them now.
        coordinator._generation  # noqa: B018
        coordinator.rebalance_in_progress()
    except AttributeError as error:
        log.warning(
            "joins are not kept: kafka-python's private names have changed",
            effect="a rebalance may repeat for half a minute",
            reason=repr(error),
        )
        return
    kept: list[tuple[Any, Any]] = []  # at most one (generation, assignment)

    async def join_once() -> Any:
        if kept and coordinator.rebalance_in_progress() and kept[0][0] == coordinator._generation:
            return kept[0][1]
        kept.clear()
        assignment = await join()
        kept.append((coordinator._generation, assignment))
        return assignment

    async def complete_and_forget(*args: Any, **options: Any) -> None:
        kept.clear()
        await complete(*args, **options)

    coordinator._do_join_and_sync_async = join_once
    coordinator._on_join_complete_async = complete_and_forget
