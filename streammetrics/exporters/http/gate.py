"""The route of the gate: `/api/gate/EXPERIMENT`. `HttpViews.gate` has the content.

The status is 200 for every decision. 404 means that the experiment is not known yet, and 503 that there is no report. So a client that
takes everything but 200 as "no decision" never passes by mistake. A POST has the same answer, with 409 unless it is a pass: for hooks of
rollout tools that read the status alone. Nothing is changed by it.
"""

from __future__ import annotations

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.exporters.http.openapi import GATE_SCOPES
from streammetrics.exporters.http.views import HttpViews
from streammetrics.reports.verdict_lines import UnknownExperimentError
from streammetrics.words.times import parse_since


def gate_route(views: HttpViews) -> Route:
    """Return the route. Its parameters are `variant`, by default all treatments, `scope`, by default since the start, and `since`."""

    async def gate(request: Request) -> Response:
        query = request.query_params
        if unknown := sorted({*query} - {"variant", "scope", "since"}):
            return JSONResponse({"error": f"unknown parameter {unknown[0]!r}; allowed are variant, scope and since"}, 400)
        scope = query.get("scope", SINCE_START)
        if scope not in GATE_SCOPES:
            return JSONResponse({"error": f"scope: got {scope!r}; allowed are {', '.join(GATE_SCOPES)}"}, 400)
        try:
            since_ms = None if "since" not in query else parse_since(query["since"], views.wall_ms())
        except ValueError as error:
            return JSONResponse({"error": f"since: got {query['since']!r}; {error}"}, 400)
        try:
            experiment = request.path_params["experiment"]
            answer = await run_in_threadpool(views.gate, experiment, query.get("variant"), scope, since_ms)
        except UnknownExperimentError as error:
            return JSONResponse({"error": str(error)}, 404)
        if answer is None:
            return JSONResponse({"error": views.why_no_report}, 503)
        status = 409 if request.method == "POST" and answer.gate != "pass" else 200
        return Response(msgspec.json.encode(answer), status, media_type="application/json")

    return Route("/api/gate/{experiment:path}", gate, methods=["GET", "POST"])
