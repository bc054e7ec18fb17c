"""The page as one file with a report inside: the same scripts and styles as the live page, without a server. Pure.

The file loads nothing. Its content security policy allows its own scripts and styles by their hashes. The report is JSON, in which `<`
is escaped, so that names from events are never markup.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any, Final

import msgspec

from streammetrics.exporters.http.help_pages import with_glossary
from streammetrics.exporters.http.routes import SCRIPTS
from streammetrics.reports.text import fit

_IMPORT: Final = re.compile(r"^import \{([^}]*)\} from \"\./([\w.]+)\";\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def page_file(report: Mapping[str, Any], title: str) -> bytes:
    """Return the page with this report as UTF-8.

    `report` has the fields of `/api/report`; all but `experiments` may be missing. `where` names its source, and `empty_text` is shown
    if there are no experiments.
    """
    library, script = _text("uplot.js"), _bundled()
    style = _text("uplot.css") + _text("page.css")
    content = msgspec.json.encode(report).decode().replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_policy((library, script), style)}">\n'
        f"<title>{escape(fit(title))}</title>\n"
        '<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n"
        f'<script id="report" type="application/json">{content}</script>\n'
    )
    scripts = f"<script>{library}</script>\n<script>{script}</script>\n"
    body = re.sub(r"<nav.*?</nav>\n|<noscript>.*?</noscript>\n", "", _between(with_glossary(_text("page.html")), "<body>\n", "</body>"))
    body = body.replace('<div id="cards"></div>', '<div id="cards"></div>\n<noscript><p>This report needs JavaScript.</p></noscript>')
    metas = _between(_text("page.html"), "<head>\n", "<title>")
    return f'<!doctype html>\n<html lang="en">\n<head>\n{metas}{head}</head>\n<body>\n{body}{scripts}</body>\n</html>\n'.encode()


def _policy(scripts: tuple[str, ...], style: str) -> str:
    own = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {own}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


@cache
def _bundled() -> str:
    """Return all modules of the page as one script. Each module becomes a function that returns what it exports."""
    return '"use strict";\n' + "".join(f"const {_variable(name)} = (() => {{\n{_module(_text(name))}}})();\n" for name in SCRIPTS)


def _module(text: str) -> str:
    """Replace the imports and exports of a module.

    >>> print(_module('import { a } from "./one.js";\\nexport const b = a;\\n'), end="")
    const { a } = module_one;
    const b = a;
    return { b };
    """
    exported = ", ".join(name for _, name in _EXPORT.findall(text))
    inside = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", text)
    return f"{_EXPORT.sub(lambda found: found[1], inside)}return {{ {exported} }};\n"


def _variable(name: str) -> str:
    return f"module_{name.removesuffix('.js')}"


def _between(text: str, start: str, end: str) -> str:
    return text[text.index(start) + len(start) : text.index(end)]
