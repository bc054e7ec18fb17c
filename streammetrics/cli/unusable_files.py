"""Explains files of a replay in which no line could be used: what the file seems to be, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from streammetrics.cli.wiring.decoders import build_decoder
from streammetrics.config import Settings
from streammetrics.connectors.file_formats.reader import FIRST_LINE, STDIN
from streammetrics.errors import MalformedEvent
from streammetrics.events.outcomes import IGNORED, MALFORMED
from streammetrics.events.recognize import recognize
from streammetrics.reports.report import Report


def shown_path(path: str) -> str:
    """Return the name of a file for a message."""
    return "standard input" if path == STDIN else path


def unusable_files(report: Report, samples: Mapping[str, bytes], settings: Settings) -> list[str]:
    """Return one message for each file that has lines but no valid event. `samples`: the start of each file by path."""
    return [
        f"no line of {shown_path(each.topic)} is an event. {_explained(samples[each.topic], settings, each.topic)}"
        for each in report.inputs
        if (each.offset or FIRST_LINE) > FIRST_LINE and _valid_events(report, each.topic) == 0
    ]


def _valid_events(report: Report, path: str) -> int:
    return report.counts.get(("events", path), 0) - sum(report.counts.get((reason, path), 0) for reason in (*MALFORMED, IGNORED))


def _explained(sample: bytes, settings: Settings, path: str) -> str:
    """Say what the file looks like. If it is not known, say why its first refused line is refused."""
    events = settings.events
    recognized = None if events.mappings or events.format not in ("native", "ubi") else recognize(sample, events.format)
    if recognized is not None:
        return f"It looks like {recognized}"
    decode = build_decoder(settings, path)
    for number, line in enumerate(sample.splitlines(), FIRST_LINE):
        for found in decode(line) if line.strip() else ():
            if isinstance(found, MalformedEvent) and found.reason != IGNORED:
                return f"Line {number} is refused as {found.reason}: {found.detail}"
    return "Check the file and events.format; --dead-letters FILE writes the reason for each refused line"
