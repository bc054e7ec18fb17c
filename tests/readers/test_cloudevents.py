"""CloudEvents, in structured and in binary mode, as the official library writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from streammetrics.events import Feedback
from streammetrics.events.record import SentValue
from streammetrics.readers import Record, cloudevents
from tests.readers.reading import events_of
from tests.support.tables import for_each

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLICK = Feedback("u7", 1772366400000, "b", "click")
NATIVE = {"type": "feedback", "user_id": "u7", "ts": 1772366400000, "item_id": "b", "action": "click"}


def clicks(record: Record) -> Iterator[Any]:
    said, data = cloudevents.event(record)
    assert said["type"] == "shop.click"
    yield {"type": "feedback", "user_id": said["subject"], "ts": said["time"], "item_id": data["sku"], "action": "click"}


def cloud_event(data: object) -> CloudEvent:
    return CloudEvent({"id": "1", "source": "/shop", "type": "shop.click", "specversion": "1.0", "subject": "u7", "time": AT}, data)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [{"sku": "b"}, {"sku": "b", "text": "ü}{"}])
def test_both_modes_give_the_attributes(data: dict[str, Any]) -> None:
    binary, structured = to_binary_event(cloud_event(data)), to_structured_event(cloud_event(data))
    assert events_of(clicks, bytes(binary.value or b""), headers=dict(binary.headers)) == [CLICK]
    assert events_of(clicks, bytes(structured.value or b"")) == [CLICK]


def test_data_may_be_a_native_event() -> None:
    binary, structured = to_binary_event(cloud_event(NATIVE)), to_structured_event(cloud_event(NATIVE))
    assert events_of(cloudevents.read, bytes(binary.value or b""), headers=dict(binary.headers)) == [CLICK]
    assert events_of(cloudevents.read, bytes(structured.value or b"")) == [CLICK]
    assert events_of(cloudevents.read, {"specversion": "1.0", "data": json.dumps(NATIVE)}) == [CLICK]
    assert events_of(cloudevents.read, NATIVE) == [CLICK], "a record that is no CloudEvent"


@for_each(
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b'{"specversion":"1.0"}',
        b'{"specversion":"1.0","data_base64":"?"}',
        SentValue.of(b"[1]", {"ce_specversion": b"1.0"}),
        SentValue.of(b"{}", {"ce_specversion": b"\xff"}),
    ]
)
def test_what_is_no_event_is_refused(value: bytes) -> None:
    headers = value.headers if isinstance(value, SentValue) else {}
    (reason,) = events_of(cloudevents.read, value, headers=headers)
    assert reason in ("reader", "empty", "bad_json")


class TestConformanceSuite:
    """The forms of events in the JSON and Kafka parts of the CloudEvents project's own conformance suite."""

    MS = int(datetime(2018, 4, 5, 17, 31, tzinfo=UTC).timestamp() * 1000)

    def structured(self, **attributes: Any) -> dict[str, Any]:
        named = {"specversion": "1.0", "id": "1", "type": "shop.click", "source": "#fragment", "subject": "u7", "data": {"sku": "b"}}
        return named | {"time": "2018-04-05T17:31:00Z"} | attributes

    @pytest.mark.parametrize(
        "time", ["2018-04-05T17:31:00Z", "2018-04-05T17:31:00.000000000Z", "2018-04-05T18:31:00+01:00", "2018-04-05T16:31:00-01:00"]
    )
    def test_valid_times(self, time: str) -> None:
        assert events_of(clicks, self.structured(time=time)) == [Feedback("u7", self.MS, "b", "click")]

    @pytest.mark.parametrize("time", ["lunchtime", "2018-04-05T18:31:00X", "2018-04-05T18:31:00+25:00", "2018-04-05T18:31:00+xx:00"])
    def test_invalid_times(self, time: str) -> None:
        assert events_of(clicks, self.structured(time=time)) == ["bad_ts"]

    def test_optional_attributes_may_be_null_and_extensions_have_any_type(self) -> None:
        optional = {"datacontenttype": None, "dataschema": None}
        extensions = {"extinteger": 10, "extboolean": True, "exturi": "https://cloudevents.io", "extbinary": "TWE="}
        assert events_of(clicks, self.structured(**optional, **extensions)) == [Feedback("u7", self.MS, "b", "click")]

    def test_data_in_base64(self) -> None:
        sent = {name: value for name, value in self.structured(data_base64="eyJza3UiOiAiYiJ9").items() if name != "data"}
        assert events_of(clicks, sent) == [Feedback("u7", self.MS, "b", "click")]
        assert events_of(clicks, sent | {"data": {"sku": "b"}}) == ["reader"], "both"

    def test_data_that_is_no_json_object_is_refused(self) -> None:
        assert events_of(clicks, self.structured(datacontenttype="text/plain", data="Simple text")) == ["reader"]
