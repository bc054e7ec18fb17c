"""The check of `doctor` for the webhook: does its receiver accept connections, and which changes wait? Sends no message."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.config import Settings
from streammetrics.connectors.http_client import HttpError, server_of
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.reports.changes import backlog_of, decode_records
from streammetrics.reports.text import counted
from streammetrics.wiring.connections import redis_connection
from streammetrics.wiring.http import webhook_client

ANSWER_MS = 2_000
FIX = "repair the receiver, or correct webhook.url; the changes are sent again by themselves until webhook.give_up_ms"


def webhook_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Check the receiver of the webhook, which must be configured, and the changes that exporters have recorded in Redis."""
    url = settings.webhook.url
    assert url is not None
    server = server_of(url.get_secret_value())
    seconds = min(settings.webhook.timeout_ms, ANSWER_MS) / 1_000
    try:
        webhook_client(settings.webhook, seconds).reach(url.get_secret_value())
    except HttpError as error:
        yield DoctorFinding("warn", error.message, "start the receiver, or correct webhook.url or webhook.ssl_cafile")
    else:
        yield DoctorFinding("ok", f"{server} accepts connections")
    connection = redis_connection(settings)
    with closing(RedisStore(replace(connection, socket_timeout_ms=min(connection.socket_timeout_ms, ANSWER_MS)))) as store:
        backlog = backlog_of(decode_records(store.compare_and_set({})).values())
    if problem := backlog.problem(time.time_ns() // 1_000_000):
        yield DoctorFinding("warn", problem, FIX)
    else:
        yield DoctorFinding("ok", f"{counted(backlog.waiting, 'change')} of verdicts and gates to send, no failed try")
