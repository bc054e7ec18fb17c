"""Explains refused events of a replay: files in which no line could be used, and an example for each reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from streammetrics.config import Settings
from streammetrics.config.results import EventSettings
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.file_formats.reader import FIRST_LINE, STDIN
from streammetrics.errors import StreammetricsError
from streammetrics.events.advice.recognize import recognize
from streammetrics.events.advice.recognize_bytes import Recognized
from streammetrics.events.advice.recognize_object import ENVELOPES
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.outcomes import IGNORED, MALFORMED
from streammetrics.events.topic_names import topic_of
from streammetrics.offline.replay.files import ReplayResult
from streammetrics.reports.report import Report
from streammetrics.reports.text import fit

EXAMPLES_MAX = 5


def shown_path(path: str) -> str:
    """Return the name of a file for a message."""
    return "standard input" if path == STDIN else path


def unusable_files(report: Report) -> list[str]:
    """Return the files that have lines but no valid event."""
    return [each.topic for each in report.inputs if (each.offset or FIRST_LINE) > FIRST_LINE and _valid_events(report, each.topic) == 0]


def _valid_events(report: Report, path: str) -> int:
    return report.counts.get(("events", path), 0) - sum(report.counts.get((reason, path), 0) for reason in (*MALFORMED, IGNORED))


def require_usable(unusable: Iterable[str], replayed: ReplayResult, settings: Settings) -> None:
    """Raise StreammetricsError if there are unusable files, with one line for each."""
    if problems := [_explained(path, replayed.samples[path], replayed.refusals.values(), settings) for path in unusable]:
        raise StreammetricsError("\n  ".join(problems))


def _explained(path: str, sample: bytes, refused: Collection[DeadLetter], settings: Settings) -> str:
    """Say what an unusable file looks like. If it is not known, say why its first refused line is refused.

    `sample` is the start of the file. `refused` are first refused events of all files.
    """
    events = settings.events
    recognized = _recognized(sample, events)
    first = min((letter for letter in refused if letter.input.topic == path), key=lambda letter: letter.offset, default=None)
    if recognized is not None:
        why = f"It looks like {recognized}"
    elif first is not None:
        why = f"Line {first.offset} is refused as {first.reason}: {first.detail}"
    else:
        why = "Check the file and events.format; `streammetrics decode` shows what its lines become"
    return f"no line of {shown_path(path)} is an event. {why}{_taken_for(path, settings)}"


def _recognized(sample: bytes, events: EventSettings) -> Recognized | None:
    """Return what a sample seems to be. With a shipped format only envelopes count, because its mappings name what else they miss."""
    found = None if events.mappings else recognize(sample, events.format)
    is_known = events.format in ("native", "ubi") or (found is not None and events.envelope == "none" and found.name in ENVELOPES)
    return found if is_known else None


def _taken_for(path: str, settings: Settings) -> str:
    """Say which topic a file was taken for, if mappings name topics."""
    topics = {topic for rule in parse_mappings(settings.events.mappings) for topic in rule.topics}
    if not topics:
        return ""
    topic = topic_of(path, topics)
    if topic is not None:
        return f". By its name it was taken for the topic {topic}; --topic names another one"
    named = ", ".join(sorted(topics))
    return f". Its name begins with no topic of a mapping ({named}): name its topic with --topic, or rename it"


def refusal_lines(refusals: Mapping[tuple[str, str], DeadLetter], unusable: Collection[str]) -> Iterator[str]:
    """Yield a line with the first refused event of each reason. Unusable files have a message of their own."""
    shown: dict[str, DeadLetter] = {}
    for (path, reason), letter in refusals.items():
        if path not in unusable:
            shown.setdefault(reason, letter)
    for reason, letter in list(shown.items())[:EXAMPLES_MAX]:
        yield f"{'':<10}{reason}, such as line {letter.offset} of {shown_path(letter.input.topic)}: {fit(letter.detail)}"
