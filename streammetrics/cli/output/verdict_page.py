"""Renders experiments as one self-contained HTML page: no script, no font, no request. Pure; recomputes nothing.

The page is built as a tree of elements, so that names from events are always text and never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from xml.etree.ElementTree import Element, SubElement, tostring

from streammetrics.cli.output.interval_chart import interval_chart
from streammetrics.cli.output.report_reader import (
    SCOPE_WORDS,
    ExperimentResults,
    credit_text,
    health_lines,
    honesty,
    interval_text,
    lift_text,
    moment,
    share_text,
)
from streammetrics.experiments import ExperimentReport, MeasureReport
from streammetrics.reports.headline_metrics import headline_measures
from streammetrics.reports.history import HistorySnapshot
from streammetrics.reports.text import Name, fit, isolated, with_names

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: the page may load nothing."""


def page(results: ExperimentResults, where: str) -> bytes:
    """Return the page as UTF-8. `where` names the source, such as a file."""
    root = Element("html", lang="en")
    head = SubElement(root, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    names = dict.fromkeys(each.experiment for each in results.experiments)
    SubElement(head, "title").text = f"Experiments: {', '.join(map(isolated, names)) or 'none'}"
    SubElement(head, "style").text = resources.files(__package__).joinpath("verdict_page.css").read_text(encoding="utf-8")
    body = SubElement(root, "body")
    header = SubElement(body, "header")
    _text(header, "h1", "Experiments")
    _text(header, "p", [f"All lists up to {moment(results.at_ms)}, from ", Name(where), f". streammetrics {results.version}"])
    main = SubElement(body, "main")
    if not results.experiments:
        _text(main, "p", f"{results.empty_text()}.")
    for experiment in results.shown():
        _section(main, experiment, results.snapshots(experiment))
    return f"<!doctype html>\n{tostring(root, encoding='unicode', method='html')}\n".encode()


def _section(main: Element, experiment: ExperimentReport, snapshots: list[tuple[int, HistorySnapshot]]) -> None:
    section = SubElement(main, "section")
    _text(section, "h2", [Name(experiment.experiment), f", {SCOPE_WORDS.get(experiment.scope, experiment.scope)}"])
    verdict = SubElement(section, "p", {"class": "verdict"})
    _text(verdict, "strong", experiment.verdict.word, {"class": experiment.verdict.word})
    _add(verdict, [" ", *_named(experiment, experiment.verdict.reason)])
    _arms(section, experiment)
    _charts(section, experiment, snapshots)
    _preferences(section, experiment)
    _measures(section, experiment)
    _reduced(section, experiment)
    checks = SubElement(section, "ul")
    for line in health_lines(experiment):
        _text(checks, "li", _named(experiment, line))
    _text(section, "p", honesty(experiment), {"class": "note"})


def _arms(section: Element, experiment: ExperimentReport) -> None:
    rows = _table(section, "Variants", ("variant", "role"), ("users", "lists", "first exposures", "effective users", "largest user"))
    for variant in experiment.variants:
        numbers = (variant.users, variant.lists, variant.first_exposures)
        largest = f"≤ {share_text(variant.largest_user_share_max)}" if variant.lists else "-"
        shown = [*(f"{number:,}" for number in numbers), f"{variant.effective_users:,.0f}", largest]
        _row(rows, (Name(variant.variant), variant.role), shown)


def _charts(section: Element, experiment: ExperimentReport, snapshots: list[tuple[int, HistorySnapshot]]) -> None:
    """Add a chart of the interval over time for each compared variant and main measure."""
    charts = SubElement(section, "div", {"class": "charts"})
    for variant in experiment.variants:
        for metric, k in headline_measures(experiment):
            points = [
                (at, point)
                for at, snapshot in snapshots
                for point in snapshot.points
                if (point.variant, point.metric, point.k) == (variant.variant, metric, k) and point.lift is not None
            ]
            if points:
                figure = SubElement(charts, "figure")
                _text(figure, "figcaption", [Name(variant.variant), f": {metric}@{k}"])
                figure.append(interval_chart(points, -experiment.margin))
    if len(charts):
        legend = " with its interval, as known at each event time. Dashed: the tolerated drop."
        _text(section, "p", ["Lift against ", Name(experiment.control or "control"), legend], {"class": "note"})


def _measures(section: Element, experiment: ExperimentReport) -> None:
    rows = _table(section, "Measures", ("measure", "variant"), ("mean", "lift", "interval"), ("verdict", "in words"))
    ordered = sorted(
        ((variant.variant, each) for variant in experiment.variants for each in variant.measures),
        key=lambda row: _place(experiment, row[1]),
    )
    for variant, each in ordered:
        numbers = (f"{each.mean:.4f}", lift_text(each.lift), interval_text(each.lift_lower, each.lift_upper))
        row = _row(rows, (f"{each.metric}@{each.k}", Name(variant)), numbers)
        word = each.verdict.word if each.verdict else "control" if variant == experiment.control else "-"
        cell = SubElement(row, "td", {"class": "name"})
        _text(cell, "span", word, {"class": word})
        _add(cell, " (decides)" if each.paging and each.verdict else "")
        _text(row, "td", _named(experiment, each.verdict.reason) if each.verdict else "", {"class": "words"})


def _preferences(section: Element, experiment: ExperimentReport) -> None:
    if not experiment.preferences:
        return
    rows = _table(section, "Interleaved lists", ("team", "against"), ("users", "lists", "mean credit", "interval"), ("verdict", "in words"))
    for each in experiment.preferences:
        row = _row(
            rows, (Name(each.team), Name(each.against)), (f"{each.users:,}", f"{each.lists:,}", f"{each.credit:+.4f}", credit_text(each))
        )
        _text(SubElement(row, "td", {"class": "name"}), "span", each.verdict.word, {"class": each.verdict.word})
        _text(row, "td", _named(experiment, each.verdict.reason), {"class": "words"})
    legend = "Mean credit: lists won minus lists lost, divided by all lists. The team with more relevant items wins a list."
    _text(section, "p", legend, {"class": "note"})


def _reduced(section: Element, experiment: ExperimentReport) -> None:
    """Add the measures with reduced variance (CUPED), if they are known."""
    found = [(variant.variant, each, each.reduced) for variant in experiment.variants for each in variant.measures if each.reduced]
    if not found:
        return
    numbers = ("mean", "lift", "interval", "variance removed", "users with earlier lists")
    rows = _table(section, "With the variance reduced (CUPED)", ("measure", "variant"), numbers)
    for variant, each, reduced in sorted(found, key=lambda row: _place(experiment, row[1])):
        interval = interval_text(reduced.lift_lower, reduced.lift_upper)
        shown = f"{reduced.mean:.4f}", lift_text(reduced.lift), interval, share_text(reduced.variance_reduction)
        _row(rows, (f"{each.metric}@{each.k}", Name(variant)), (*shown, f"{reduced.users_with_earlier:,}"))


def _named(experiment: ExperimentReport, text: str) -> Sequence[str]:
    """Return the parts of a text, with the names of the experiment, its variants and its teams marked."""
    arms = [each.variant for each in experiment.variants]
    teams = [name for each in experiment.preferences for name in (each.team, each.against)]
    return with_names(text, [*arms, *teams, experiment.control or "", experiment.experiment])


def _place(experiment: ExperimentReport, measure: MeasureReport) -> tuple[int, int]:
    """Return the sort key of a measure: main measures first, then the others in their order."""
    main = headline_measures(experiment)
    name = measure.metric, measure.k
    every = dict.fromkeys((each.metric, each.k) for variant in experiment.variants for each in variant.measures)
    return main.index(name) if name in main else len(main), [*every].index(name)


def _table(section: Element, caption: str, words: tuple[str, ...], numbers: tuple[str, ...], after: tuple[str, ...] = ()) -> Element:
    table = SubElement(SubElement(section, "div", {"class": "wide"}), "table")
    _text(table, "caption", caption)
    heads = SubElement(SubElement(table, "thead"), "tr")
    for heading in (*words, *numbers, *after):
        _text(heads, "th", heading, {"scope": "col"} | ({} if heading in numbers else {"class": "name"}))
    return SubElement(table, "tbody")


def _row(rows: Element, names: tuple[str, ...], numbers: tuple[str, ...] | list[str]) -> Element:
    row = SubElement(rows, "tr")
    _text(row, "th", names[0], {"class": "name", "scope": "row"})
    for name in names[1:]:
        _text(row, "td", name, {"class": "name"})
    for number in numbers:
        _text(row, "td", number)
    return row


def _text(parent: Element, tag: str, text: str | Sequence[str], attributes: dict[str, str] | None = None) -> Element:
    element = SubElement(parent, tag, attributes or {})
    _add(element, text)
    return element


def _add(element: Element, text: str | Sequence[str]) -> None:
    """Append sanitized text. A Name gets its own element, isolated from the text direction around it."""
    for part in [text] if isinstance(text, str) else text:
        if isinstance(part, Name):
            SubElement(element, "bdi").text = fit(part)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + fit(part)
        else:
            element.text = (element.text or "") + fit(part)
