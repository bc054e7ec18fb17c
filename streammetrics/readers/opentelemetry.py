"""OpenTelemetry: log records of feature flag evaluations in OTLP JSON, one by one or in export requests. They are exposures.

https://opentelemetry.io/docs/specs/semconv/feature-flags/feature-flags-events/

Needs exposures.enabled = true. A record is an event named feature_flag.evaluation with `timeUnixNano` or `observedTimeUnixNano`, and the
attributes that `openfeature` names. All other log records are ignored.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore
from streammetrics.readers.openfeature import exposure


def read(record: Record) -> Iterator[Any]:
    sent = record.json()
    if "resourceLogs" not in sent:
        yield evaluation(sent)
        return
    for resource in sent["resourceLogs"]:
        for scope in resource.get("scopeLogs", ()):
            for log in scope.get("logRecords", ()):
                yield evaluation(log)


def evaluation(log: dict[str, Any]) -> Any:
    # A value is an object such as {"stringValue": "on"}.
    attributes = {attribute["key"]: next(iter(attribute["value"].values()), None) for attribute in log.get("attributes") or ()}
    if (first(log, "eventName") or attributes.get("event.name")) != "feature_flag.evaluation":
        return ignore("other log record")
    nanos = first(log, "timeUnixNano", "observedTimeUnixNano")
    return exposure(attributes, None if nanos is None else int(nanos) // 1_000_000)
