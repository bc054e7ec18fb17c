"""Logs events that are ahead of the others of their input, and rows of events that move the time of an input."""

from __future__ import annotations

import structlog

from streammetrics.connectors.source import Input
from streammetrics.engine.batch import BatchResult
from streammetrics.events.event_time import NEVER

log = structlog.get_logger("streammetrics.runtime.consume.time_log")


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
