"""Explains refused events of a replay: files in which no line could be used, and an example for each reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from streammetrics.config import Settings
from streammetrics.config.results import NATIVE
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.file_formats.reader import FIRST_LINE, STDIN
from streammetrics.errors import StreammetricsError
from streammetrics.events.native import WRITE_A_READER
from streammetrics.events.outcomes import IGNORED, MALFORMED
from streammetrics.events.record import topic_of
from streammetrics.offline.replay.files import ReplayResult
from streammetrics.reports.report import Report
from streammetrics.words.names import fit

EXAMPLES_MAX = 5


def shown_path(path: str) -> str:
    """Return the name of a file for a message."""
    return "standard input" if path == STDIN else path


def unusable_files(report: Report) -> list[str]:
    """Return the files that have lines but no valid event."""
    return [
        position.topic
        for position in report.inputs
        if (position.offset or FIRST_LINE) > FIRST_LINE and _valid_events(report, position.topic) == 0
    ]


def _valid_events(report: Report, path: str) -> int:
    return report.counts.get(("events", path), 0) - sum(report.counts.get((reason, path), 0) for reason in (*MALFORMED, IGNORED))


def require_usable(unusable: Iterable[str], replayed: ReplayResult, settings: Settings) -> None:
    """Raise StreammetricsError if there are unusable files, with one line for each, and if nothing was read at all."""
    if problems := [_explained(path, replayed.refusals.values(), settings) for path in unusable]:
        raise StreammetricsError("\n  ".join(problems))
    if all((position.offset or FIRST_LINE) == FIRST_LINE for position in replayed.report.inputs):
        paths = ", ".join(shown_path(position.topic) for position in replayed.report.inputs)
        raise StreammetricsError(f"nothing was read: {paths} {'have' if ', ' in paths else 'has'} no line, or only a header")


def _explained(path: str, refused: Collection[DeadLetter], settings: Settings) -> str:
    """Say why the first refused line of an unusable file is refused. `refused` are first refused events of all files."""
    first = min((letter for letter in refused if letter.input.topic == path), key=lambda letter: letter.offset, default=None)
    if first is None:
        why = "Its reader ignores all of them; `streammetrics decode` says why"
    else:
        why = f"Line {first.offset} is refused as {first.reason}: {first.detail}{_hint(first, path, settings)}"
    return f"no line of {shown_path(path)} is an event. {why}{_taken_for(path, settings)}"


def _hint(first: DeadLetter, path: str, settings: Settings) -> str:
    """Say how a file of another form is read."""
    if first.reason != "bad_json":
        return ""
    if (first.value or b"").strip() == b"{":  # an object begins there, and goes on below
        return ". Write each object on one line: jq -c ."
    is_native = settings.events.reader_of(path) == NATIVE
    return f". If its lines have a form of their own, {WRITE_A_READER}" if is_native else ""


def _taken_for(path: str, settings: Settings) -> str:
    """Say which topic a file was taken for, if readers are by topic."""
    reader = settings.events.reader
    if isinstance(reader, str):
        return ""
    topic = topic_of(path, reader)
    if topic is not None:
        return f". By its name it was taken for the topic {topic}; --topic names another one"
    return f". Its name begins with no topic of events.reader ({', '.join(sorted(reader))}): name its topic with --topic, or rename it"


def refusal_lines(refusals: Mapping[tuple[str, str], DeadLetter], unusable: Collection[str]) -> Iterator[str]:
    """Yield a line with the first refused event of each reason. Unusable files have a message of their own."""
    first_letters: dict[str, DeadLetter] = {}
    for (path, reason), letter in refusals.items():
        if path not in unusable:
            first_letters.setdefault(reason, letter)
    for reason, letter in list(first_letters.items())[:EXAMPLES_MAX]:
        yield f"{'':<10}{reason}, such as line {letter.offset} of {shown_path(letter.input.topic)}: {fit(letter.detail)}"
