"""The webhook of real exporters on a real Redis: one message for one change, whichever exporter sees it first and whichever dies."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack

from streammetrics.connectors.webhook import signature
from tests.servers.kafka import KafkaBroker
from tests.servers.process import wait_until
from tests.servers.product import Product
from tests.story import ENDS_MS, SECTIONS
from tests.support.command_line import streammetrics
from tests.support.http_receiver import HttpReceiver, receiving
from tests.support.real_pipeline import Pipeline, start_ms

SECRET = "s3cret"
REFUSED = r"The webhook fails: the receiver answered 503 \(\d+ (try|tries)\). \d+ changes? waits?"


def test_two_exporters_send_a_regression_once_although_the_receiver_fails_and_one_of_them_dies(
    kafka_broker: KafkaBroker, redis_url: str
) -> None:
    old_is_fine = {"exporter": {"gate_stale_ms": 86_400_000}}  # the events are hours old, and verdicts of stale data are not sent
    pipeline = Pipeline(kafka_broker, redis_url, "webhook", ["impressions", "feedback"], **SECTIONS, **old_is_fine)
    with ExitStack() as stack:
        receiver: HttpReceiver = stack.enter_context(receiving())
        receiver.status = 503
        service = stack.enter_context(pipeline.service())
        webhook = ["--set", f"webhook.url={receiver.url}", "--set", f"webhook.secret={SECRET}", "--set", "webhook.on=verdict"]
        exporters = [Product("--config", service.config, "--role", "exporter", *webhook) for _ in range(2)]
        for exporter in exporters:
            stack.callback(exporter.close)
            exporter.start()
        begin = start_ms()
        kafka = ["--set", f"kafka.bootstrap_servers={kafka_broker.bootstrap}", "--set", f"kafka.topics={','.join(pipeline.topics)}"]
        size = ["--minutes", "30", "--users", "3000", "--rate", "20", "--start", str(begin), "--seed", "7"]
        done = streammetrics("simulate", "--kafka", "--pace", "fast", *kafka, *size, "--regression", "treatment:0.85")
        assert done.returncode == 0, done.stderr
        pipeline.write_ends(begin + ENDS_MS)
        receiver.wait_for(2, 120)
        for exporter in exporters:
            wait_for_a_shown_failure(exporter)
        doctor = streammetrics("doctor", "--config", service.config, "--set", "worker.role=exporter", *webhook)
        assert re.search(REFUSED, doctor.stdout), doctor.stdout
        assert f"{receiver.url.removesuffix('/hook')} accepts connections" in doctor.stdout
        assert "webhook.give_up_ms" in doctor.stdout
        exporters[0].kill()
        refused, receiver.status = len(receiver.messages), 200
        receiver.wait_for(refused + 1, 120)
        wait_for_nothing_waiting(exporters[1])
        messages = list(receiver.messages)
    taken = messages[refused:]
    keys = [each.headers["idempotency-key"] for each in taken]
    assert len(set(keys)) == len(keys)
    assert {each.headers["idempotency-key"] for each in messages} == set(keys)  # what was refused was sent again
    assert json.loads(taken[-1].body)["verdict"]["after"] == "regressed"
    for each in messages:
        assert each.headers["x-streammetrics-signature"] == signature(SECRET, int(each.headers["x-streammetrics-timestamp"]), each.body)


def wait_for_a_shown_failure(exporter: Product) -> None:
    """Wait until an exporter shows that the receiver fails, whichever exporter has tried, and stays ready."""

    def is_shown() -> bool:
        return re.match(REFUSED, json.loads(exporter.get("/api/pulse").text)["webhook"]["problem"] or "") is not None

    wait_until(is_shown, what="the failure is shown", deadline_seconds=120)
    assert re.search(r"^streammetrics_webhooks_oldest_timestamp_seconds 1\.", exporter.get("/metrics").text, re.MULTILINE)
    assert exporter.get("/readyz").status == 200


def wait_for_nothing_waiting(exporter: Product) -> None:
    def is_done() -> bool:
        page = exporter.get("/metrics").text
        found = re.search(r"^streammetrics_webhooks_waiting ([0-9.]+)$", page, re.MULTILINE)
        return found is not None and float(found[1]) == 0

    wait_until(is_done, what="no change waits", deadline_seconds=120)
