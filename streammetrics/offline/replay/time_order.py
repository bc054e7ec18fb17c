"""Files whose events are not in order of time: how a replay notices them, and sorts them on disk.

A topic has a log: its order decides which events are late, and a replay in that order has the numbers of `run`. An export of a warehouse
has no order, so most of its events would be late. The orders of a replay are:

- `log`: the order of the file.
- `time`: all files are sorted by the times of their events.
- `auto`: the order of the file, unless too many of its events are late then. Such a file is sorted, and all files are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from streammetrics.config import Settings
from streammetrics.connectors.dead_letters import DeadLetter, DeadLetterSink
from streammetrics.connectors.file_formats.reader import FileReader, SortedFile, TimedRecord, sort_records
from streammetrics.connectors.files import LINE_BYTES_MAX
from streammetrics.errors import StreammetricsError
from streammetrics.events import Decoder, Event
from streammetrics.events.event_time import NEVER
from streammetrics.reports.input_warnings import LATE_SHARE_MAX, SortedInput, order_problem
from streammetrics.reports.report import Report
from streammetrics.wiring.decoders import build_decoder, has_reader

Order: TypeAlias = Literal["auto", "log", "time"]
ORDERS: Final[tuple[Order, ...]] = ("auto", "log", "time")
PARTS_MAX: Final = 1_024
STRETCHES: Final = 100
STRETCH_LINES_MIN: Final = 20


class OutOfOrderError(StreammetricsError):
    """Files are not in order of time. `advice` says what to do."""

    def __init__(self, inputs: tuple[SortedInput, ...], advice: str = "") -> None:
        self.inputs = inputs
        super().__init__(order_problem(inputs), f"{advice}. --order log keeps the order, for the log of a topic")


class LatePlaces:
    """How many late records each part of a file has. Parts become longer with the file, so that there are at most `PARTS_MAX`.

    lines: the number of the last record of the file.

    >>> places = LatePlaces()
    >>> for number in range(951, 981):
    ...     places.add(number)
    >>> places.lines = 980
    >>> places.has_late_stretch
    True
    >>> places.lines = 100_000
    >>> places.has_late_stretch
    False
    """

    def __init__(self) -> None:
        self.lines = 0
        self._part_lines = 4
        self._counts: list[int] = []

    def add(self, number: int) -> None:
        """Count a late record by its number in the file."""
        while (part := number // self._part_lines) >= PARTS_MAX:
            self._lengthen_parts()
        self._counts += [0] * (part + 1 - len(self._counts))
        self._counts[part] += 1

    def merge(self, other: LatePlaces) -> None:
        """Add the late records that another process found in the same file."""
        self.lines = max(self.lines, other.lines)
        while self._part_lines < other._part_lines:
            self._lengthen_parts()
        for part, count in enumerate(other._counts):
            place = part * other._part_lines // self._part_lines
            self._counts += [0] * (place + 1 - len(self._counts))
            self._counts[place] += count

    def _lengthen_parts(self) -> None:
        self._part_lines *= 2
        self._counts = [sum(self._counts[part : part + 2]) for part in range(0, len(self._counts), 2)]

    @property
    def has_late_stretch(self) -> bool:
        """Whether most records of a hundredth of the file are late, or of 20 lines if that is more."""
        stretch = max(STRETCH_LINES_MIN, self.lines // STRETCHES)
        parts = -(-stretch // self._part_lines)
        return any(2 * sum(self._counts[part : part + parts]) > parts * self._part_lines for part in range(len(self._counts)))


class LateRecords:
    """A sink of dead letters that notes where the late ones of each file are, and passes all on."""

    def __init__(self, sink: DeadLetterSink) -> None:
        self._sink = sink
        self.places: dict[str, LatePlaces] = {}

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Note the late letters, and write all to the sink."""
        written = list(letters)
        for letter in written:
            if letter.reason == "late":
                self.places.setdefault(letter.input.topic, LatePlaces()).add(letter.offset)
        self._sink.write(written)

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()


def inputs_out_of_order(report: Report, late_places: Mapping[str, LatePlaces]) -> tuple[SortedInput, ...]:
    """Return the files that are not in order of time.

    More than a few percent of their events are late, or most of a stretch, or most are ahead: newest first, nothing would be final. Times
    in seconds among others in milliseconds have no order.
    """
    unsorted, in_seconds = [], {late_input.topic for late_input in report.late_inputs if late_input.is_in_seconds}
    for path in dict.fromkeys(position.topic for position in report.inputs):
        if path in in_seconds:
            continue
        events, late, ahead = (report.counts.get((reason, path), 0) for reason in ("events", "late", "ahead"))
        if 2 * ahead > events or late > LATE_SHARE_MAX * events or (path in late_places and late_places[path].has_late_stretch):
            unsorted.append(SortedInput(path, events, max(late, ahead)))
    return tuple(unsorted)


def sorted_file(settings: Settings, path: str, folder: Path, progress: Callable[[int, int | None], None]) -> SortedFile:
    """Sort a file by the times of its events. Raises SourceError for a damaged file or a full disk, and ConfigError without an extra.

    folder: where the sorted file is written. It is created.
    progress: called with the bytes read, and those of the file; None: unknown.
    """
    folder.mkdir()
    reader = FileReader(path, max(settings.events.event_bytes_max + 1, LINE_BYTES_MAX), texts=has_reader(settings, path))
    try:
        written = sort_records(_timed(reader, build_decoder(settings, path), progress), folder)
        return SortedFile(written, reader.cut, reader.number)
    finally:
        reader.close()


def _timed(reader: FileReader, decode: Decoder, progress: Callable[[int, int | None], None]) -> Iterator[TimedRecord]:
    """Yield the records of a file with their times: of several events in one record the last time, as if it were sent then.

    A record without an event has the time of the one before.
    """
    time = NEVER
    while not reader.ended:
        for offset, _, value in reader.take(1_000):
            times = [event.ts for event in decode(value) if isinstance(event, Event)]
            time = max(times, default=time)
            yield time, offset, value or b""
        progress(reader.bytes_read, reader.bytes_total)
