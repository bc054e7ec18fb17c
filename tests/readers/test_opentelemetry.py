"""OpenTelemetry: log records of evaluations of flags, one by one and in export requests."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Exposure
from streammetrics.readers.opentelemetry import read
from tests.readers.reading import WITH_EXPOSURES, events_of
from tests.readers.samples import NOON

SHOWN = Exposure("u7", NOON, "ranker-v7", "treatment")


def attribute(key: str, value: object) -> dict[str, Any]:
    """Return an attribute in OTLP JSON."""
    return {"key": key, "value": {"boolValue" if isinstance(value, bool) else "stringValue": value}}


def log_record(*, name: str | None = "feature_flag.evaluation", **attributes: object) -> dict[str, Any]:
    """Return a log record in OTLP JSON. In names of attributes, an underscore stands for a dot after feature_flag."""
    named = {"key": "ranker-v7", "context_id": "u7", "result_variant": "treatment", "provider_name": "flagd"} | attributes
    sent = [attribute(f"feature_flag.{key.replace('_', '.')}", value) for key, value in named.items() if value is not None]
    record = {"timeUnixNano": f"{NOON}000123", "severityNumber": 9, "attributes": sent, "traceId": "5b8efff798038103d269b633813fc60c"}
    return record if name is None else record | {"eventName": name}


def found(record: object) -> list[Any]:
    return events_of(read, record, WITH_EXPOSURES)


def test_log_records() -> None:
    assert found(log_record()) == found(log_record(result_reason="targeting_match")) == [SHOWN]
    assert found(log_record(result_variant=None, result_value=True)) == [Exposure("u7", NOON, "ranker-v7", "true")]
    assert found(log_record() | {"timeUnixNano": None, "observedTimeUnixNano": NOON * 1_000_000}) == [SHOWN]


def test_the_name_of_the_event_may_be_an_attribute() -> None:
    former = log_record(name=None, result_variant=None, variant="treatment")
    former["attributes"].append(attribute("event.name", "feature_flag.evaluation"))
    assert found(former) == [SHOWN]


def test_other_log_records_and_failed_evaluations_are_ignored() -> None:
    assert found(log_record(result_reason="error", result_variant=None)) == found(log_record(name="session.start")) == ["ignored"]
    assert found({"body": {"stringValue": "a line of a log"}, "timeUnixNano": "1"}) == ["ignored"]


def test_what_is_no_exposure_is_refused() -> None:
    assert found(log_record(context_id=None)) == ["missing_field"]
    assert found(log_record(result_variant="x" * 129)) == ["bad_label"]
    assert found({"resourceLogs": [{"scopeLogs": 7}]}) == ["reader"]


def test_an_export_request_holds_all_its_log_records_in_order() -> None:
    logs = [{"logRecords": [log_record(), log_record(name="other")]}, {}, {"logRecords": [log_record(context_id="u8")]}]
    request = {"resourceLogs": [{"resource": {}, "scopeLogs": logs}, {}]}
    assert found(request) == [SHOWN, "ignored", Exposure("u8", NOON, "ranker-v7", "treatment")]
    assert found({"resourceLogs": []}) == ["ignored"]
