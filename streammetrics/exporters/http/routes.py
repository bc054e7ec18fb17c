"""Routes of the live page and of the gate. `HttpAnswers` has their content.

The page is `page.html`, `page.css` and the scripts in `static/`, with recent points for its charts and the status of the process. Only the
glossary is put into the page; no script is inline. `uplot.js` and `uplot.css` draw the charts. They come from npm, see
`tests/tools/servers/chart_library.py`.

The status of the gate is 200 for every decision. 404 means that the experiment is not known yet, and 503 that there is no report. So a
client that takes everything but 200 as "no decision" never passes by mistake. A POST has the same answer, with 409 unless it is a pass:
for hooks of rollout tools that read the status alone. Nothing is changed by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import resources

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.etag import REVALIDATE, tagged
from streammetrics.exporters.http.help_pages import help_routes, with_glossary
from streammetrics.exporters.http.openapi import GATE_SCOPES, openapi_json
from streammetrics.exporters.http.recent import LISTS, UnknownChoiceError
from streammetrics.reports.published import ReportChoice
from streammetrics.reports.verdict_lines import UnknownExperimentError
from streammetrics.words.times import parse_since

SCRIPTS = (
    "text.js",
    "elements.js",
    "terms.js",
    "history.js",
    "lookup.js",
    "intervals.js",
    "verdicts.js",
    "plot.js",
    "chart.js",
    "curves.js",
    "why.js",
    "banner.js",
    "variants.js",
    "experiments.js",
    "pipeline.js",
    "state.js",
    "page.js",
)
"""The modules of the page. Each imports only from those before it."""
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/uplot.css": ("uplot.css", "text/css"),
    **{f"/{name}": (name, "text/javascript") for name in ("uplot.js", *SCRIPTS)},
}


def page_routes(answers: HttpAnswers) -> list[Route]:
    """Return the routes of the page. It polls the parts of the report."""

    async def curves(request: Request) -> Response:
        query = request.query_params
        try:
            window_ms, metric, lists = _milliseconds(query.get("window_ms", "")), query.get("metric", ""), query.get("lists", LISTS[0])
            lines = await run_in_threadpool(answers.recent.lines, window_ms, metric, lists)
        except UnknownChoiceError as error:
            return _json({"error": str(error)}, 400)
        return tagged(request, msgspec.json.encode(lines), "application/json")

    async def part(request: Request) -> Response:
        query = request.query_params
        try:
            choice = _report_choice(request.path_params["part"], query.getlist("experiment"), query)
        except UnknownChoiceError as error:
            return _json({"error": str(error)}, 400)
        content = await run_in_threadpool(answers.report_part, choice)
        return _json({"error": answers.why_no_report}, 503) if content is None else tagged(request, content, "application/json")

    async def pulse(request: Request) -> Response:
        return _json(answers.pulse())

    async def openapi(request: Request) -> Response:
        return tagged(request, openapi_json(), "application/json", REVALIDATE)

    return [
        Route("/api/openapi.json", openapi),
        Route("/api/curves", curves),
        Route("/api/report/{part}", part),
        Route("/api/pulse", pulse),
        *(Route(path, _file(*named)) for path, named in _FILES.items()),
        *help_routes(),
    ]


def _report_choice(part: str, experiments: list[str], query: Mapping[str, str]) -> ReportChoice | None:
    """Return what a part is about; None for the state."""
    if part not in ("state", "experiments"):
        raise UnknownChoiceError(f"part: got {part!r}; allowed are state and experiments")
    if part == "state":
        return None
    window_ms = query.get("window_ms")
    if (scope := query.get("scope", "start")) not in ("start", "day"):
        raise UnknownChoiceError(f"scope: got {scope!r}; allowed are start and day")
    return ReportChoice(
        tuple(experiments), None if window_ms is None else _milliseconds(window_ms), query.get("segment", ""), day=scope == "day"
    )


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise UnknownChoiceError(f"window_ms: got {text!r}; allowed is a whole number of milliseconds")
    return int(text)


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _file(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    text = resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")
    content = (with_glossary(text) if name == "page.html" else text).encode()

    async def serve(request: Request) -> Response:
        return tagged(request, content, media_type, REVALIDATE)

    return serve


def gate_route(answers: HttpAnswers) -> Route:
    """Return the route. Its parameters are `variant`, by default all treatments, `scope`, by default since the start, and `since`."""

    async def gate(request: Request) -> Response:
        query = request.query_params
        if unknown := sorted({*query} - {"variant", "scope", "since"}):
            return JSONResponse({"error": f"unknown parameter {unknown[0]!r}; allowed are variant, scope and since"}, 400)
        scope = query.get("scope", SINCE_START)
        if scope not in GATE_SCOPES:
            return JSONResponse({"error": f"scope: got {scope!r}; allowed are {', '.join(GATE_SCOPES)}"}, 400)
        try:
            since_ms = None if "since" not in query else parse_since(query["since"], answers.wall_ms())
        except ValueError as error:
            return JSONResponse({"error": f"since: got {query['since']!r}; {error}"}, 400)
        try:
            experiment = request.path_params["experiment"]
            answer = await run_in_threadpool(answers.gate, experiment, query.get("variant"), scope, since_ms)
        except UnknownExperimentError as error:
            return JSONResponse({"error": str(error)}, 404)
        if answer is None:
            return JSONResponse({"error": answers.why_no_report}, 503)
        status = 409 if request.method == "POST" and answer.gate != "pass" else 200
        return Response(msgspec.json.encode(answer), status, media_type="application/json")

    return Route("/api/gate/{experiment:path}", gate, methods=["GET", "POST"])
