"""The glossary and the runbooks as the exporter serves them, so that links work where the internet does not."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from html import escape
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
from markdown_it import MarkdownIt
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streammetrics.exporters.http.etag import REVALIDATE, tagged
from streammetrics.exporters.package_files import package_file

_REPOSITORY: Final = "https://github.com/streammetrics/streammetrics/blob/main/"
_ROW: Final = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"(\]\()(?!https?://|#)([^)\s]+\))")


def glossary() -> Mapping[str, str]:
    """Return the text of each term.

    >>> glossary()["control"]
    'The variant that all others are compared with.'
    """
    (_, *rows) = _ROW.findall(package_file("glossary.md").read_text(encoding="utf-8"))
    return dict(rows)


def with_glossary(page: str) -> str:
    """Return the page with the terms that its buttons explain."""
    return page.replace("GLOSSARY", msgspec.json.encode(glossary()).decode().replace("<", "\\u003c"))


def help_routes() -> list[Route]:
    """Return the routes of the glossary and of each runbook: `/help/glossary` and `/help/ALERT`."""
    runbooks = [each for each in package_file("runbooks").iterdir() if each.name.endswith(".md")]
    pages = [package_file("glossary.md"), *sorted(runbooks, key=lambda each: each.name)]
    return [Route(f"/help/{each.name.removesuffix('.md')}", _page(each)) for each in pages]


def _page(source: Traversable) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return tagged(request, rendered(source.name.removesuffix(".md"), source.read_text(encoding="utf-8")), "text/html", REVALIDATE)

    return serve


@cache
def rendered(title: str, markdown: str) -> bytes:
    """Return a page of Markdown as HTML. Links to other files lead to the repository."""
    linked = _LINK.sub(lambda found: f"{found[1]}{_REPOSITORY}deploy/runbooks/{found[2]}", markdown)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(linked)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/page.css">\n</head>\n'
        f'<body class="help-page">\n<p><a href="/">streammetrics</a></p>\n<main>\n{body}</main>\n</body>\n</html>\n'
    ).encode()
