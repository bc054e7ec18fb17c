"""The route of the gate: `/api/gate/EXPERIMENT`. `HttpViews.gate` has the content.

The status is 200 for every decision. 404 means that the experiment is not known yet, and 503 that there is no report. So a client that
takes everything but 200 as "no decision" never passes by mistake.
"""

from __future__ import annotations

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streammetrics.experiments import SINCE_START
from streammetrics.exporters.http.openapi import GATE_SCOPES
from streammetrics.exporters.http.views import HttpViews
from streammetrics.reports.gate_answer import UnknownExperimentError
from streammetrics.reports.time_text import parse_moment


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
            since_ms = None if "since" not in query else parse_moment(query["since"])
        except ValueError as error:
            return JSONResponse({"error": f"since: got {query['since']!r}; {error}"}, 400)
        try:
            experiment = request.path_params["experiment"]
            answer = await run_in_threadpool(views.gate, experiment, query.get("variant"), scope, since_ms)
        except UnknownExperimentError as error:
            return JSONResponse({"error": str(error)}, 404)
        if answer is None:
            return JSONResponse({"error": views.why_no_report}, 503)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return Route("/api/gate/{experiment:path}", gate)
