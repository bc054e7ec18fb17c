"""OpenFeature: evaluations of flags are exposures."""

from __future__ import annotations

from typing import Any

from streammetrics.events import Exposure
from streammetrics.readers.openfeature import read
from tests.readers.reading import WITH_EXPOSURES, events_of
from tests.readers.samples import NOON

SENT: dict[str, Any] = {
    "name": "feature_flag.evaluation",
    "timestamp": "2026-03-01T12:00:00.000Z",
    "attributes": {
        "feature_flag.key": "ranker-v7",
        "feature_flag.context.id": "u7",
        "feature_flag.result.variant": "treatment",
        "feature_flag.result.reason": "split",
        "feature_flag.provider.name": "flagd",
    },
}


def found(record: dict[str, Any], **attributes: object) -> object:
    (event,) = events_of(read, record | {"attributes": record["attributes"] | attributes_of(attributes)}, WITH_EXPOSURES)
    return event


def attributes_of(given: dict[str, object]) -> dict[str, object]:
    return {f"feature_flag.{name.replace('_', '.')}": value for name, value in given.items()}


def test_evaluations() -> None:
    exposure = Exposure("u7", NOON, "ranker-v7", "treatment")
    assert found(SENT) == found(SENT | {"timestamp": NOON}) == exposure
    assert found(SENT, result_variant=None, result_value=False) == Exposure("u7", NOON, "ranker-v7", "false")


def test_other_records_and_failed_evaluations_are_ignored() -> None:
    assert found({"name": "other", "attributes": {"a": 1}}) == found(SENT, result_reason="error") == "ignored"
    assert events_of(read, {"name": "other"}) == ["ignored"]


def test_what_is_no_exposure_is_refused() -> None:
    assert found(SENT, context_id="") == found(SENT | {"timestamp": None}) == "missing_field"
    assert found(SENT, result_variant={"name": "treatment"}) == "bad_label"
    assert events_of(read, SENT) == ["bad_type"], "exposures are off"
