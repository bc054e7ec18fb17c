"""The OpenAPI description of `/api/…`. Answers are described from their types, so that they cannot differ. Pure.

`API_VERSION` follows semantic versioning: the first number changes when a field is removed or changes its meaning, the second when one
is added.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.experiments.experiment_report import SINCE_START, THIS_DAY
from streammetrics.exporters.http.answers import Pulse
from streammetrics.exporters.http.recent import LISTS, Curves
from streammetrics.reports.published import ApiValue, PublishedReport, ReportExperiments, ReportState
from streammetrics.reports.verdict_lines import GateAnswer

API_VERSION: Final = "1.0.0"
GATE_SCOPES: Final = (SINCE_START, THIS_DAY)
JsonSchema: TypeAlias = dict[str, Any]

_TEXT: Final[JsonSchema] = {"type": "string"}
_COUNT: Final[JsonSchema] = {"type": "integer", "minimum": 0}


def _list(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def _ref(name: str) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{name}"}


class ErrorAnswer(ApiValue, frozen=True):
    """Why there is no answer."""

    error: str


@cache
def openapi_json() -> bytes:
    """Return the description as JSON."""
    answers = [PublishedReport, ReportState, ReportExperiments, GateAnswer, Curves, Pulse, ErrorAnswer]
    _, components = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    parameters: list[JsonSchema] = [
        {"name": "window_ms", "in": "query", "required": True, "schema": _COUNT},
        {"name": "metric", "in": "query", "required": True, "schema": _TEXT, "example": "ndcg@10"},
        {"name": "lists", "in": "query", "schema": {"enum": [*LISTS], "default": LISTS[0]}},
    ]
    gate_parameters: list[JsonSchema] = [
        {"name": "experiment", "in": "path", "required": True, "schema": _TEXT},
        {"name": "variant", "in": "query", "schema": _TEXT, "description": "One treatment. Without it, all must pass."},
        {"name": "scope", "in": "query", "schema": {"enum": [*GATE_SCOPES], "default": GATE_SCOPES[0]}},
        {
            "name": "since",
            "in": "query",
            "schema": _TEXT,
            "example": "2026-02-01T09:00:00Z",
            "description": "When the running step of the rollout began, or a span ago, such as 3h. A pass needs it, or fixed shares.",
        },
    ]
    part_parameters: list[JsonSchema] = [
        {"name": "experiment", "in": "query", "schema": _list(_TEXT), "description": "Without one: all of up to three, else the worst."},
        {"name": "window_ms", "in": "query", "schema": _COUNT, "description": "Without it: the longest window of at most an hour."},
        {"name": "segment", "in": "query", "schema": _TEXT, "example": "surface=home", "description": "Without it: all lists."},
        {"name": "scope", "in": "query", "schema": {"enum": ["start", "day"], "default": "start"}},
    ]
    paths = {
        "/api/report": _path("The newest report.", "PublishedReport", {"503": "No report yet, or this process does not publish."}),
        "/api/report/state": _path("The newest report without windows, totals and experiments.", "ReportState", {"503": "No report yet."}),
        "/api/report/experiments": _path(
            "The verdicts on all experiments, and the numbers of some.",
            "ReportExperiments",
            {"400": "Unknown parameter.", "503": "No report yet."},
            part_parameters,
        ),
        "/api/gate/{experiment}": _path(
            "Whether the treatments of an experiment may get more traffic.",
            "GateAnswer",
            {"400": "Unknown parameter, scope or time.", "404": "Unknown experiment or treatment.", "503": "No report yet."},
            gate_parameters,
        )
        | _path(
            "The same, with a status for hooks that read nothing else.",
            "GateAnswer",
            {
                "400": "Unknown parameter, scope or time.",
                "404": "Unknown experiment or treatment.",
                "409": "No pass; with the answer.",
                "503": "No report yet.",
            },
            gate_parameters,
            "post",
        ),
        "/api/curves": _path("Recent points of one window and metric.", "Curves", {"400": "Unknown window, metric or lists."}, parameters),
        "/api/pulse": _path("The state of this process.", "Pulse", {}),
        "/api/openapi.json": {"get": {"summary": "This description.", "responses": {"200": {"description": "OpenAPI 3.1."}}}},
    }
    info = {
        "title": "streammetrics",
        "version": API_VERSION,
        "description": "Live ranking quality. Nothing here writes.",
    }
    return msgspec.json.encode({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}})


def _path(summary: str, schema: str, errors: dict[str, str], parameters: list[JsonSchema] | None = None, method: str = "get") -> JsonSchema:
    def response(description: str, name: str) -> JsonSchema:
        return {"description": description, "content": {"application/json": {"schema": _ref(name)}}}

    responses = {"200": response(summary, schema), **{status: response(text, "ErrorAnswer") for status, text in errors.items()}}
    return {method: {"summary": summary, "parameters": parameters or [], "responses": responses}}
