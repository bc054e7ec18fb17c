"""Logs what is striking about events, so that a log shows what is wrong without reading the dead letters.

These are the first refused event of each topic and reason, an event that is ahead of the others of its input, and rows of events that
move the time of an input.
"""

from __future__ import annotations

from typing import Final

import structlog

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.source import Input
from streammetrics.engine.batch import BatchResult
from streammetrics.events.event_time import NEVER

EXPECTED: Final = frozenset({"late"})
"""Reasons that a healthy stream has too. They are only counted."""
log = structlog.get_logger("streammetrics.runtime.consume.event_log")


def log_first_refusal(letter: DeadLetter) -> None:
    """Log a refused event, unless its reason is expected."""
    if letter.reason not in EXPECTED:
        log.warning(
            "an event is refused; more with this reason from this topic are only counted and dead-lettered",
            topic=letter.input.topic,
            partition=letter.input.partition,
            offset=letter.offset,
            reason=letter.reason,
            detail=letter.detail,
        )


class TimeLog:
    """Warns once per input of an event that is ahead, and has one debug line for a batch with moves."""

    def __init__(self) -> None:
        self._warned: set[Input] = set()

    def note(self, origin: Input, result: BatchResult) -> None:
        """Log what a batch of this input did to its time."""
        where = {"topic": origin.topic, "partition": origin.partition}
        if result.outlier is not None and origin not in self._warned:
            self._warned.add(origin)
            log.warning(
                "an event was ahead of the other events of its input and moved no watermark: check the clock of its sender",
                **where,
                **result.outlier._asdict(),
            )
        if result.moves:
            first, last = result.moves[0], result.moves[-1]
            log.debug(
                "the time of an input begins" if first.start == NEVER else "a queue of events has moved the time of an input",
                **where,
                from_ms=None if first.start == NEVER else first.start,
                to_ms=last.end,
                events=last.events,
                users=last.users,
                moves=len(result.moves),
            )
