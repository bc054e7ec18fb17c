"""Joining a consumer group with short polls: what a join brought is kept until a poll takes it. Nothing here talks to a broker.

It leans on private names of kafka-python. Where they have changed, the client's own way stays in place, and the log says so.
"""

from __future__ import annotations

from typing import Any

import structlog
from kafka import KafkaConsumer

log = structlog.get_logger("streammetrics.kafka")


def keep_joins(consumer: KafkaConsumer) -> None:
    """Let a poll take up the join that ended since the last poll, as the client lets it take up one that is still going on.

    The client joins on a thread of its own and a poll waits for it as long as its timeout. A join that ends between two polls it
    throws away and joins again; when the member leads its group, that is a new rebalance for everybody, which may end between
    two polls again. Busy members of one group were seen to go on like that for half a minute.
    """
    try:
        coordinator = consumer._coordinator
        join, complete = coordinator._do_join_and_sync_async, coordinator._on_join_complete_async
        coordinator._generation  # noqa: B018  (read below, on the client's thread, where an error would end the membership)
        coordinator.rebalance_in_progress()
    except AttributeError as error:
        log.warning("joins that end between two polls are made again: the client's inner names have changed", reason=repr(error))
        return
    kept: list[tuple[Any, Any]] = []

    async def join_or_take_up() -> Any:
        if kept and coordinator.rebalance_in_progress() and kept[0][0] == coordinator._generation:
            return kept[0][1]
        kept.clear()
        assignment = await join()
        kept.append((coordinator._generation, assignment))
        return assignment

    async def complete_and_forget(*args: Any, **options: Any) -> None:
        kept.clear()
        await complete(*args, **options)

    coordinator._do_join_and_sync_async = join_or_take_up
    coordinator._on_join_complete_async = complete_and_forget
