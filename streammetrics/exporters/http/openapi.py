"""The OpenAPI description of `/api/…`. Experiments and their history are described from their types, so that they cannot differ. Pure.

`API_VERSION` follows semantic versioning: the first number changes when a field is removed or changes its meaning, the second when one
is added.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.experiments import SINCE_START, THIS_DAY, ExperimentReport
from streammetrics.exporters.http.recent import LISTS
from streammetrics.reports.explanation_values import Explanation
from streammetrics.reports.gate_answer import GateAnswer
from streammetrics.reports.headlines import Headline
from streammetrics.reports.history import HistorySeries

API_VERSION: Final = "1.5.0"
GATE_SCOPES: Final = (SINCE_START, THIS_DAY)
JsonSchema: TypeAlias = dict[str, Any]

_TEXT: Final[JsonSchema] = {"type": "string"}
_COUNT: Final[JsonSchema] = {"type": "integer", "minimum": 0}
_TIME: Final[JsonSchema] = {"type": ["integer", "null"], "description": "Epoch milliseconds of event time; null if there is none yet."}
_SECONDS: Final[JsonSchema] = {"type": ["number", "null"], "description": "Seconds; null if unknown."}
_FLAG: Final[JsonSchema] = {"type": "boolean"}
_OBJECT: Final[JsonSchema] = {"type": "object"}


def _record(**fields: JsonSchema) -> JsonSchema:
    """Return the schema of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def _list(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def _map(values: JsonSchema) -> JsonSchema:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{name}"}


_NUMBERS: Final = _list({"type": ["number", "null"]})
_MEANS: Final = _map({"type": "number"})
_GROUP: Final[dict[str, JsonSchema]] = {"experiment": _TEXT, "variant": _TEXT}
_VALUES: Final[dict[str, JsonSchema]] = {"lists": _COUNT, "lists_with_feedback": _COUNT, "values": _MEANS, "values_with_feedback": _MEANS}

_ESTIMATE: Final[JsonSchema] = {"type": ["number", "null"], "description": "An estimate; null without one."}
_REASON: Final[JsonSchema] = {"type": ["string", "null"], "description": "Why there is no estimate; null if there is one."}
_POSITION_BIAS: Final = _record(
    is_estimate={"const": True},
    from_ms=_TIME,
    withheld=_REASON,
    caution={"type": ["string", "null"], "description": "Why the numbers may mislead; null if nothing says so."},
    items=_COUNT,
    shared_items=_COUNT,
    sampled_share={"type": "number", "description": "Share of items that are counted; 1 below position_bias.items_max."},
    confidence={"type": ["number", "null"]},
    ranks=_list(
        _record(
            rank=_COUNT,
            **dict.fromkeys(("examination", "lower", "upper"), _ESTIMATE),
            **dict.fromkeys(("shows", "clicks", "shared_shows", "shared_clicks"), _COUNT),
            why_not=_REASON,
        )
    ),
    variants=_list(_record(**_GROUP, lists=_COUNT, dcg=_MEANS, corrected_dcg=_MEANS)),
)
_REPORT: Final = _record(
    warnings=_list(_TEXT),
    version=_TEXT,
    settings=_OBJECT,
    rules=_TEXT,
    tasks=_COUNT,
    tasks_committed=_COUNT,
    watermark_ms=_TIME,
    final_ms=_TIME,
    ended=_FLAG,
    late_inputs=_list(_OBJECT),
    inputs=_list(_record(topic=_TEXT, partition=_COUNT, offset={"type": ["integer", "null"]}, watermark_ms=_TIME)),
    windows=_list(
        _record(
            window_ms=_COUNT,
            view={"enum": ["final", "live"]},
            end_ms=_TIME,
            complete=_FLAG,
            groups=_list(_record(**_GROUP, segments=_map(_TEXT), **_VALUES)),
        )
    ),
    totals=_list(_record(**_GROUP, **_VALUES)),
    counters=_map(_COUNT),
    refused=_map(_COUNT),
    counters_by_topic=_list(_record(reason=_TEXT, topic=_TEXT, count=_COUNT)),
    users_open=_COUNT,
    sessions_open=_COUNT,
    windows_withheld=_COUNT,
    unknown_names=_list(_OBJECT),
    paths=_list(_OBJECT),
    user_partitions={"type": ["object", "null"]},
    position_bias={"anyOf": [_POSITION_BIAS, {"type": "null"}], "description": "An estimate; null if it is switched off."},
    experiments=_list(_ref("ExperimentReport")),
    awaited=_list(
        _record(
            experiment=_TEXT,
            first_verdict_ms=_TIME,
            control={"type": ["string", "null"]},
            measure={"type": ["string", "null"]},
            live_lifts=_list(_record(variant=_TEXT, lift={"type": "number"}, lists=_COUNT)),
            sentences=_list(_TEXT),
        )
    ),
    experiments_entered_ms=_TIME,
    user_windows=_list(
        _record(
            window_ms=_COUNT,
            end_ms=_TIME,
            complete=_FLAG,
            groups=_list(_record(**_GROUP, users=_COUNT, users_with_hit=_map(_COUNT), values=_MEANS)),
        )
    ),
    headlines=_list(_ref("Headline")),
    explanations=_list(_ref("Explanation")),
    history=_list(_ref("HistorySeries")),
)
_PART_OF_RESULTS: Final = (
    "windows",
    "user_windows",
    "totals",
    "experiments",
    "experiments_entered_ms",
    "headlines",
    "explanations",
    "history",
)
_REPORT_STATE: Final = _record(**{name: each for name, each in _REPORT["properties"].items() if name not in _PART_OF_RESULTS})
_REPORT_EXPERIMENTS: Final = _record(
    experiment_names=_list(_TEXT),
    segments=_list(_TEXT),
    scopes=_list(_TEXT),
    **{name: _REPORT["properties"][name] for name in _PART_OF_RESULTS},
)
_CURVES: Final = _record(
    windows=_list(
        _record(
            view={"enum": ["final", "live"]},
            ends_ms=_list(_COUNT),
            lines=_list(_record(**_GROUP, segments=_map(_TEXT), lists=_NUMBERS, values=_NUMBERS)),
        )
    ),
    experiments=_list(
        _record(
            experiment=_TEXT,
            scope=_TEXT,
            ends_ms=_list(_COUNT),
            lines=_list(
                _record(variant=_TEXT, **dict.fromkeys(("mean", "error", "lift", "lift_lower", "lift_upper"), _NUMBERS)),
            ),
        )
    ),
)
_MARK: Final = _record(
    at_ms=_COUNT,
    kind={"enum": ["deploy", "alert"]},
    text=_TEXT,
    experiment=_TEXT,
    ended_ms={"type": ["integer", "null"], "description": "The end of an alert; null for a deploy, and while no end is known."},
    alert={"type": "string", "description": "Alertmanager's fingerprint of an alert; empty for a deploy."},
)
_MARKS: Final = _record(marks=_list(_MARK))
_WEBHOOK: Final = _record(
    waiting=_COUNT,
    oldest_ms={"type": ["integer", "null"], "description": "When the oldest change that waits was recorded; null for none."},
    given_up=_COUNT,
    problem={"type": ["string", "null"], "description": "Why the receiver takes no messages; null if it does."},
)
_PULSE: Final = _record(
    missing=_list(_TEXT),
    quota={"type": "string", "description": "Says that brokers slow the reading down by a quota; empty if they do not."},
    waiting=_list(_TEXT),
    webhook={"anyOf": [_WEBHOOK, {"type": "null"}], "description": "Null without a webhook."},
    marks=_list(_MARK),
    publishes=_FLAG,
    report_age_seconds=_SECONDS,
    report_gap_seconds=_SECONDS,
    commit_age_seconds=_SECONDS,
    events_per_second={"type": ["number", "null"]},
    lag={"anyOf": [_list(_record(topic=_TEXT, partition=_COUNT, records=_COUNT, seconds=_SECONDS)), {"type": "null"}]},
    paused_inputs=_COUNT,
    commits=_map(_COUNT),
    rebalances=_COUNT,
    client_rebuilds=_COUNT,
    dead_letters=_COUNT,
)


_POSTED: Final[JsonSchema] = {
    "type": "object",
    "description": "A deploy. Messages of Alertmanager's webhook are read too: each alert becomes a mark, which ends with the alert.",
    "properties": {"text": _TEXT, "experiment": _TEXT, "at": {"type": ["string", "integer"]}},
}
_POST_MARK: Final[JsonSchema] = {
    "post": {
        "summary": "Mark a deploy on the curves, or the firing alerts of a message of Alertmanager.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _POSTED}}},
        "responses": {
            "201": {"description": "The marks that were stored.", "content": {"application/json": {"schema": _ref("Marks")}}},
            **{
                status: {"description": text, "content": {"application/json": {"schema": _ref("Error")}}}
                for status, text in {
                    "400": "Not such a body.",
                    "411": "A body without its length.",
                    "413": "A body that is too long.",
                    "415": "Not JSON.",
                    "503": "Not stored.",
                }.items()
            },
        },
    }
}


@cache
def openapi_json() -> bytes:
    """Return the description as JSON."""
    types, components = msgspec.json.schema_components(
        [ExperimentReport, Headline, Explanation, HistorySeries, GateAnswer], ref_template="#/components/schemas/{name}"
    )
    assert [each["$ref"].rpartition("/")[2] for each in types] == [
        "ExperimentReport",
        "Headline",
        "Explanation",
        "HistorySeries",
        "GateAnswer",
    ]
    parameters: list[JsonSchema] = [
        {"name": "window_ms", "in": "query", "required": True, "schema": _COUNT},
        {"name": "metric", "in": "query", "required": True, "schema": _TEXT, "example": "ndcg@10"},
        {"name": "lists", "in": "query", "schema": {"enum": [*LISTS], "default": LISTS[0]}},
    ]
    gate_parameters: list[JsonSchema] = [
        {"name": "experiment", "in": "path", "required": True, "schema": _TEXT},
        {"name": "variant", "in": "query", "schema": _TEXT, "description": "One treatment. Without it, all must pass."},
        {"name": "scope", "in": "query", "schema": {"enum": [*GATE_SCOPES], "default": GATE_SCOPES[0]}},
        {"name": "stage", "in": "query", "schema": _TEXT, "description": "The stage that must run for a pass."},
    ]
    part_parameters: list[JsonSchema] = [
        {"name": "experiment", "in": "query", "schema": _list(_TEXT), "description": "Without one: all of up to three, else the worst."},
        {"name": "window_ms", "in": "query", "schema": _COUNT, "description": "Without it: the longest window of at most an hour."},
        {"name": "segment", "in": "query", "schema": _TEXT, "example": "surface=home", "description": "Without it: all lists."},
        {"name": "scope", "in": "query", "schema": {"enum": ["start", "day"], "default": "start"}},
    ]
    paths = {
        "/api/report": _path("The newest report.", "Report", {"503": "No report yet, or this process does not publish."}),
        "/api/report/state": _path("The newest report without windows, totals and experiments.", "ReportState", {"503": "No report yet."}),
        "/api/report/experiments": _path(
            "The headlines of all experiments, and the numbers of some.",
            "ReportExperiments",
            {"400": "Unknown parameter.", "503": "No report yet."},
            part_parameters,
        ),
        "/api/gate/{experiment}": _path(
            "Whether the treatments of an experiment may get more traffic.",
            "GateAnswer",
            {"400": "Unknown parameter or scope.", "404": "Unknown experiment, treatment or stage.", "503": "No report yet."},
            gate_parameters,
        ),
        "/api/curves": _path("Recent points of one window and metric.", "Curves", {"400": "Unknown window, metric or lists."}, parameters),
        "/api/pulse": _path("The state of this process.", "Pulse", {}),
        "/api/marks": _path("Deploys and alerts on the curves, oldest first.", "Marks", {}) | _POST_MARK,
        "/api/openapi.json": {"get": {"summary": "This description.", "responses": {"200": {"description": "OpenAPI 3.1."}}}},
    }
    schemas = {
        **components,
        "Report": _REPORT,
        "ReportState": _REPORT_STATE,
        "ReportExperiments": _REPORT_EXPERIMENTS,
        "Curves": _CURVES,
        "Pulse": _PULSE,
        "Marks": _MARKS,
        "Error": _record(error=_TEXT),
    }
    info = {
        "title": "streammetrics",
        "version": API_VERSION,
        "description": "Live ranking quality. Only POST /api/marks writes.",
    }
    return msgspec.json.encode({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}})


def _path(summary: str, schema: str, errors: dict[str, str], parameters: list[JsonSchema] | None = None) -> JsonSchema:
    def response(description: str, name: str) -> JsonSchema:
        return {"description": description, "content": {"application/json": {"schema": _ref(name)}}}

    responses = {"200": response(summary, schema), **{status: response(text, "Error") for status, text in errors.items()}}
    return {"get": {"summary": summary, "parameters": parameters or [], "responses": responses}}
