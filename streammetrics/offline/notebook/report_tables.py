"""Reports as tables: windows, totals, experiments and their history, from a replay, a file or a running server."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from streammetrics.config.fields import http_parts
from streammetrics.connectors.http_client import HttpClient, HttpError
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import StreammetricsError
from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.metrics.names import parse_metric
from streammetrics.metrics.tables import DataTable
from streammetrics.words.numbers import counted

_VALUES: Final = ("lists", "lists_with_feedback", "metric", "k", "value", "value_with_feedback")
_DECIDED: Final = ("treatment", "metric", "k", "lift", "lift_lower", "lift_upper", "users")
_VERDICT: Final = ("experiment", "scope", "verdict", "reason", "gate", *_DECIDED, "warnings")
_COMPARED: Final = ("mean", "error", "difference", "lift", "lift_lower", "lift_upper", "p_value", "alpha", "paging", "verdict", "reason")
READ_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, repr=False)
class ReportTables:
    """A report and its tables. Times are epoch milliseconds. `report` is the whole report as plain values."""

    report: Mapping[str, Any]

    @property
    def windows(self) -> DataTable:
        """The values of the newest windows: one row per window, view, group and metric."""
        names = ("window_ms", "view", "end_ms", "complete", "experiment", "variant", "segments", *_VALUES)
        return DataTable.of_rows(names, self._window_rows())

    @property
    def totals(self) -> DataTable:
        """The values over all final lists: one row per variant and metric."""
        totals = self.report["totals"]
        rows = ({"experiment": one["experiment"], "variant": one["variant"], **row} for one in totals for row in _values(one))
        return DataTable.of_rows(("experiment", "variant", *_VALUES), rows)

    @property
    def experiments(self) -> DataTable:
        """What is compared: one row per experiment, scope, variant and measure, with the lift, its interval and the verdict."""
        names = ("experiment", "scope", "variant", "role", "users", "lists", "metric", "k", *_COMPARED)
        return DataTable.of_rows(names, self._experiment_rows())

    @property
    def verdicts(self) -> DataTable:
        """The verdict on each experiment and scope, worst first, with its reason and warnings: one row per experiment and scope."""
        lines = (line for line in self.report.get("verdicts", ()) if not line["variant"])
        return DataTable.of_rows(_VERDICT, ({**line, "warnings": "; ".join(_further(line))} for line in lines))

    @property
    def history(self) -> DataTable:
        """The lifts over time: one row per experiment, scope, time, variant and measure. Only some measures are kept."""
        names = ("experiment", "scope", "end_ms", "variant", "metric", "k", "lift", "lift_lower", "lift_upper")
        return DataTable.of_rows(names, self._history_rows())

    @property
    def counters(self) -> DataTable:
        """The outcomes of events: one row per reason."""
        counters = self.report["counters"]
        return DataTable({"reason": list(counters), "count": list(counters.values())})

    def __repr__(self) -> str:
        return "\n".join((*self._verdict_lines(), self._title(), *self._warnings(), repr(self.totals)))

    def _repr_html_(self) -> str:
        """The verdicts, a title, the warnings and the totals as HTML; Jupyter shows it."""
        lines = (*self._verdict_lines(), self._title(), *self._warnings())
        return "".join(f"<p>{html.escape(line)}</p>" for line in lines) + self.totals._repr_html_()

    def _verdict_lines(self) -> list[str]:
        """The verdict on each experiment since its start, worst first."""
        rows = [row for row in self.verdicts.rows() if row["scope"] == SINCE_START]
        return [f"{row['experiment']}: {row['verdict']}, {'; '.join(filter(None, (row['reason'], row['warnings'])))}" for row in rows]

    def _warnings(self) -> list[str]:
        return [f"warning: {sentence}" for sentence in self.report.get("warnings", ())]

    def _title(self) -> str:
        names = dict.fromkeys(comparison["experiment"] for comparison in self.report.get("experiments", ()))
        experiments = f"experiments {', '.join(names)}" if names else "no experiment"
        return f"{counted(self.report['counters'].get('events', 0), 'event')}, {experiments}"

    def _window_rows(self) -> Iterator[dict[str, Any]]:
        for window in self.report["windows"]:
            place = {name: window[name] for name in ("window_ms", "view", "end_ms", "complete")}
            for group in window["groups"]:
                segments = ",".join(f"{name}={value}" for name, value in sorted(group["segments"].items()))
                for row in _values(group):
                    yield {**place, "experiment": group["experiment"], "variant": group["variant"], "segments": segments, **row}

    def _experiment_rows(self) -> Iterator[dict[str, Any]]:
        for experiment in self.report.get("experiments", ()):
            for variant in experiment["variants"]:
                arm = {name: variant[name] for name in ("variant", "role", "users", "lists")}
                for measure in variant["measures"]:
                    verdict = measure.get("verdict") or {}
                    judged = {"verdict": verdict.get("word"), "reason": verdict.get("reason")}
                    yield {"experiment": experiment["experiment"], "scope": experiment["scope"], **arm, **measure, **judged}

    def _history_rows(self) -> Iterator[dict[str, Any]]:
        names = ("variant", "metric", "k", "lift", "lift_lower", "lift_upper")
        for series in self.report.get("history", ()):
            place = {"experiment": series["experiment"], "scope": series["scope"]}
            for end_ms, (*_, points) in series["looks"]["kept"]:
                yield from ({**place, "end_ms": end_ms, **dict(zip(names, point, strict=True))} for point in points)


def _further(line: Mapping[str, Any]) -> Iterator[str]:
    """What bends the numbers of a verdict, without what its reason says already."""
    yield from (warning["text"] for warning in line["warnings"] if warning["text"] not in line["reason"])


def _values(group: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    counts = {"lists": group["lists"], "lists_with_feedback": group["lists_with_feedback"]}
    for text, value in group["values"].items():
        metric, of_answered = parse_metric(text), group["values_with_feedback"].get(text)
        yield {**counts, "metric": metric.name, "k": metric.k, "value": value, "value_with_feedback": of_answered}


def read_report(source: str | os.PathLike[str]) -> ReportTables:
    """Read a report from a file (`streammetrics replay --report`) or from a server, such as http://localhost:8000/api/report.

    Raises StreammetricsError if it cannot be read, or is no report.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.json"
    ...     _ = path.write_text('{"windows": [], "totals": [], "counters": {"events": 3}, "experiments": []}')
    ...     read_report(path).counters
    reason  count
    events  3
    """
    text = os.fspath(source)
    content = _downloaded(text) if text.startswith(("http://", "https://")) else _file_content(text)
    try:
        plain = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StreammetricsError(f"{text}: not a report: it is not JSON ({error})") from error
    if not isinstance(plain, dict) or not {"windows", "totals", "counters"} <= plain.keys():
        raise StreammetricsError(f"{text}: not a report; allowed is what `streammetrics replay --report` or /api/report gives")
    return ReportTables(plain)


def _file_content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StreammetricsError(f"{path}: cannot be read: {error.strerror or error}") from error


def _downloaded(url: str) -> bytes:
    client = HttpClient(timeout_seconds=READ_SECONDS, certificates=CertificateFiles(section="client"))
    try:
        http_parts(url)
        answer = client.request("GET", url, {"accept": "application/json"})
    except (ValueError, HttpError) as error:
        raise StreammetricsError(f"{url}: cannot be read: {error.why if isinstance(error, HttpError) else error}") from error
    if answer.status != 200:
        raise StreammetricsError(f"{url}: cannot be read: the server answered {answer.status}")
    return answer.body
