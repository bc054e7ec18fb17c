"""OpenFeature: evaluation events of feature flags, as its SDKs make them for telemetry. They are exposures.

https://openfeature.dev/specification/appendix-d

Needs exposures.enabled = true, and `attributes` with `feature_flag.key` and `feature_flag.context.id`, with a time beside them. The flag is
the experiment, and the context id (the targeting key) is the user: it must be the user id of the lists. Log records whose exporter writes
attributes as an object have this form, too.
"""

from collections.abc import Iterator
from typing import Any

from streammetrics.readers import Record, first, ignore

VARIANT = ("feature_flag.result.variant", "feature_flag.variant", "feature_flag.result.value")


def read(record: Record) -> Iterator[Any]:
    event = record.json()
    yield exposure(event.get("attributes") or {}, first(event, "timestamp", "time", "ts"))


def exposure(attributes: dict[str, Any], ts: object) -> Any:
    """Return the exposure of an evaluation."""
    flag = first(attributes, "feature_flag.key")
    if flag is None:
        return ignore("no feature flag")
    if attributes.get("feature_flag.result.reason") == "error":
        return ignore("evaluation failed")
    user, variant = first(attributes, "feature_flag.context.id"), first(attributes, *VARIANT)
    return {"type": "exposure", "user_id": user, "ts": ts, "experiment": flag, "variant": variant}
