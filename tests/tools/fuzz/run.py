"""One part of a run: records through a worker, and then files."""

from __future__ import annotations

import resource
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from streammetrics.connectors.file_formats.parquet import MEMORY_BYTES_MAX
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.fuzz.files import Files
from tests.tools.fuzz.laws import Outcomes
from tests.tools.fuzz.worker import check_records

PART: Final = 50_000
RECORDS_MIB_MAX: Final = 512
"""By how much a process may grow with the records of one part."""


class Part(NamedTuple):
    """The counters of the worker, and how files ended."""

    counts: Counter[str]
    ends: Counter[str]


def run(outcomes: Outcomes, records: int, seed: int) -> Part:
    """Add about so many records to the outcomes. Raises WrongAnswerError if a law is broken."""
    with tempfile.TemporaryDirectory() as scratch:
        began, from_files = _peak_mib(), records // 5
        counts = check_records(outcomes, Path(scratch), records - from_files, seed)
        _require_growth("records", began, RECORDS_MIB_MAX)
        began, files = _peak_mib(), Files(outcomes, Path(scratch), Random(seed))
        files.check(from_files)
        _require_growth("files", began, RECORDS_MIB_MAX + (MEMORY_BYTES_MAX >> 20))
    return Part(counts, files.ends)


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _require_growth(what: str, began: int, most: int) -> None:
    if _peak_mib() - began > most:
        raise WrongAnswerError(f"memory grew from {began} to {_peak_mib()} MiB with {what}")
