"""Committed dashboards as their readers see them: panels, queries, and variables put into queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from grafana.generate import FOLDER

NAMES = ("experiment", "ranking", "pipeline")
VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")
STEPS = {"__rate_interval": "4m11s", "__range": "4m12s", "__interval": "4m13s"}
"""Odd times, to be told from ones that were written."""
CHOICES = {"experiment": "ranker", "variant": ".+", "metric": "ndcg", "k": "10", "window": "1m", "segments": "()", "scope": "start"}


class Asked(NamedTuple):
    """One query of a panel, with the place where it stands."""

    dashboard: str
    panel: Mapping[str, Any]
    target: Mapping[str, Any]

    @property
    def expr(self) -> str:
        return str(self.target["expr"])

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel['title']} / {self.target['refId']}"


@cache
def committed(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def panels(dashboard: Mapping[str, Any], *, rows: bool = False) -> Iterator[dict[str, Any]]:
    """Every panel, those in collapsed rows too; rows only if asked for."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row" or rows:
            yield panel
        yield from panel.get("panels", ())


def queries(name: str) -> Iterator[Asked]:
    for panel in panels(committed(name)):
        for target in panel.get("targets", ()):
            yield Asked(name, panel, target)


def every_query() -> list[Asked]:
    return [asked for name in NAMES for asked in queries(name)]


def filled(expr: str, choices: Mapping[str, str]) -> str:
    """The query as Grafana sends it. KeyError for a variable that nobody chose."""
    return VARIABLE.sub(lambda found: choices[found[1] or found[2]], expr)


def parsed_form(expr: str) -> str:
    """The query with something in the place of every variable, and job left to be seen."""
    return filled(expr, {**STEPS, **CHOICES, "job": "$job", "datasource": "prometheus"})
