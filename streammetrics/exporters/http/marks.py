"""`/api/marks`: read the marks on the curves, and post one. Only a client that could read the numbers may post.

A post is JSON by its content type. A page of another site cannot send that without the permission of this server, which gives none.
"""

from __future__ import annotations

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from streammetrics.errors import CallerError, StreammetricsError
from streammetrics.exporters.http.views import HttpViews, Marks
from streammetrics.reports.marks import parse_marks

MARKS_PATH = "/api/marks"
JSON = "application/json"

log = structlog.get_logger("streammetrics.http")


def marks_route(views: HttpViews) -> Route:
    """Return the route. A process without `add_marks` answers 503 to a post."""

    async def marks(request: Request) -> Response:
        if request.method != "POST":
            return _json(views.marks())
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return _json({"error": f"content-type: send {JSON}"}, 415)
        if views.add_marks is None:
            return _json({"error": "this process keeps no marks; post to the exporter of its namespace"}, 503)
        try:
            posted = parse_marks(await request.body(), views.wall_ms())
            await run_in_threadpool(views.add_marks, posted)
        except ClientDisconnect:
            return Response(status_code=408)  # the client has gone
        except CallerError as error:
            return _json({"error": str(error)}, 400)
        except StreammetricsError as error:
            log.warning("a mark cannot be stored", error=str(error))
            return _json({"error": "the mark cannot be stored now; try again"}, 503)
        return _json(Marks(marks=tuple(posted)), 201)

    return Route(MARKS_PATH, marks, methods=["GET", "POST"])


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type=JSON)
