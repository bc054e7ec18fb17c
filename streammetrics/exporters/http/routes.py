"""The live page's own paths: its files, the recent curves and the pulse of the process. What they say comes from `HttpViews`.

The page itself is `page.html` with `page.css` and the modules of `page*.js` beside this file, served as they are: there is no
build, nothing of others and nothing inline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streammetrics.exporters.http.etag import REVALIDATE, tagged
from streammetrics.exporters.http.recent import LISTS, UnknownChoiceError
from streammetrics.exporters.http.views import HttpViews

SCRIPTS = ("page.js", "page_chart.js", "page_experiments.js", "page_history.js", "page_parts.js", "page_pipeline.js", "page_words.js")
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}": (name, "text/javascript") for name in SCRIPTS},
}


def page_routes(views: HttpViews) -> list[Route]:
    """The page and what it asks for besides `/api/report`."""

    async def curves(request: Request) -> Response:
        asked = request.query_params
        try:
            lines = views.curves.lines(_whole(asked.get("window_ms", "")), asked.get("metric", ""), asked.get("lists", LISTS[0]))
        except UnknownChoiceError as error:
            return _json({"error": str(error)}, 400)
        return tagged(request, msgspec.json.encode(lines), "application/json")

    async def pulse(request: Request) -> Response:
        return _json(views.pulse())

    return [
        Route("/api/curves", curves),
        Route("/api/pulse", pulse),
        *(Route(path, _file(*named)) for path, named in _FILES.items()),
    ]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise UnknownChoiceError("window_ms: is needed; allowed is a whole number of milliseconds")
    return int(text)


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _file(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files(__package__).joinpath("static", name).read_bytes()

    async def answer(request: Request) -> Response:
        return tagged(request, content, media_type, REVALIDATE)

    return answer
