"""The glossary and the runbooks as the exporter serves them, so that links work where the internet does not."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from html import escape
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

import msgspec
from markdown_it import MarkdownIt
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streammetrics.exporters.http.etag import REVALIDATE, tagged
from streammetrics.exporters.package_files import package_file

_REPOSITORY: Final = "https://github.com/streammetrics/streammetrics/blob/main/"
_GLOSSARY: Final = ".github/docs"
_RUNBOOKS: Final = "deploy/runbooks"
_ROW: Final = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"(\]\()(?!https?://|#)([^)\s]+)\)")
_END_LINK: Final = re.compile(r" \[([^\]]+)\]\(([^)\s]+)\)$")


class Term(NamedTuple):
    """What a term means, and the name and the address of the page that says more; both empty without one."""

    meaning: str
    page: str = ""
    address: str = ""


def glossary() -> Mapping[str, Term]:
    """Return the text of each term.

    >>> glossary()["control"]
    Term(meaning='The variant that all others are compared with.', page='', address='')
    >>> glossary()["mixed"].page, glossary()["mixed"].address
    ('Runbook', '/help/StreammetricsVerdictMixed')
    """
    (_, *rows) = _ROW.findall(package_file("glossary.md").read_text(encoding="utf-8"))
    return {term: _term(text) for term, text in rows}


def _term(text: str) -> Term:
    link = _END_LINK.search(text)
    return Term(text) if link is None else Term(text[: link.start()], link[1], _address(link[2], _GLOSSARY))


def _address(link: str, folder: str) -> str:
    """Return where a link of a page in a folder leads: to a page of this server, or to the repository."""
    path, mark, anchor = link.partition("#")
    place = posixpath.normpath(posixpath.join(folder, path))
    is_served = place == f"{_GLOSSARY}/glossary.md" or posixpath.dirname(place) == _RUNBOOKS
    page = f"/help/{posixpath.basename(place).removesuffix('.md')}" if is_served else f"{_REPOSITORY}{place}"
    return f"{page}{mark}{anchor}"


def with_glossary(page: str) -> str:
    """Return the page with the terms that its buttons explain."""
    return page.replace("GLOSSARY", msgspec.json.encode(glossary()).decode().replace("<", "\\u003c"))


def help_routes() -> list[Route]:
    """Return the routes of the glossary and of each runbook: `/help/glossary` and `/help/ALERT`."""
    runbooks = [runbook for runbook in package_file("runbooks").iterdir() if runbook.name.endswith(".md")]
    pages = [
        (package_file("glossary.md"), _GLOSSARY),
        *((runbook, _RUNBOOKS) for runbook in sorted(runbooks, key=lambda runbook: runbook.name)),
    ]
    return [Route(f"/help/{page.name.removesuffix('.md')}", _page(page, folder)) for page, folder in pages]


def _page(source: Traversable, folder: str) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        page = rendered(source.name.removesuffix(".md"), source.read_text(encoding="utf-8"), folder)
        return tagged(request, page, "text/html", REVALIDATE)

    return serve


@cache
def rendered(title: str, markdown: str, folder: str) -> bytes:
    """Return a page of Markdown as HTML. Its links, written from its folder, lead to this server's runbooks or to the repository."""
    linked = _LINK.sub(lambda match: f"{match[1]}{_address(match[2], folder)})", markdown)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(linked)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/page.css">\n</head>\n'
        f'<body class="help-page">\n<p><a href="/">streammetrics</a></p>\n<main>\n{body}</main>\n</body>\n</html>\n'
    ).encode()
