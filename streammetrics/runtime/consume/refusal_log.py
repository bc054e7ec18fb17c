"""Logs the first refused event of each topic and reason, so that a log shows what is wrong without reading the dead letters."""

from __future__ import annotations

from typing import Final

import structlog

from streammetrics.connectors.dead_letters import DeadLetter

EXPECTED: Final = frozenset({"late"})
"""Reasons that a healthy stream has too. They are only counted."""

log = structlog.get_logger("streammetrics.runtime.consume.refusal_log")


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
