"""Gets the values of the libraries. Each has a worker process; results are cached in .cache.

They are found again by all that they depend on: the lists, the code that asks, and the environment. So a fresh clone asks anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.metrics.golden import cases, environment
from tests.metrics.golden.cases import Case

LIBRARIES: Final = ("lenskit", "sklearn", "torchmetrics", "ranx", "rectools", "trec_eval")
"""By falling patience that they need."""

Answers = dict[str, list[Any]]


def _everything(library: str) -> list[Case]:
    """Every list, in what a library can be told: all know the shown items, not all know zeros or misses."""
    if library in ("sklearn", "torchmetrics"):
        return cases.without_misses(cases.every_case())
    if library in ("lenskit", "rectools"):
        return cases.without_zeros(cases.every_case())
    return cases.every_case()


@cache
def asked(library: str) -> Sequence[Case]:
    """The lists that the library is asked about."""
    return _everything(library)


@cache
def _all_answers() -> Mapping[str, Answers]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(LIBRARIES, pool.map(lambda library: ask(library, asked(library)), LIBRARIES), strict=True))


def answers(library: str) -> Answers:
    """Each measure's values for the lists of `asked`. The first call asks all libraries, side by side."""
    return _all_answers()[library]


def ask(library: str, lists: Sequence[Case], cutoffs: Sequence[int] = cases.CUTOFFS) -> Answers:
    """One library's values for these lists, by measure: a number, NaN, or the name of the error that it raised."""
    question = json.dumps({"lists": [[case.items, case.grades, case.scores] for case in lists], "cutoffs": cutoffs})
    kept = environment.CACHE / "answers" / f"{library}-{_digest(question)}.json"
    if not kept.exists():
        _keep(kept, _worker(library).ask(question))
    found: Answers = json.loads(kept.read_text())
    return found


class _Worker:
    """A process in the golden environment that has imported one library, which takes longer than most questions."""

    def __init__(self, library: str) -> None:
        self.library = library
        self._process = subprocess.Popen(
            [environment.interpreter(), "-m", "tests.metrics.golden.worker", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=environment.ROOT,
        )

    def ask(self, question: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.library} did not answer; standard error says why")
        return answer

    def dismiss(self) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate()


_workers: dict[str, _Worker] = {}


def _worker(library: str) -> _Worker:
    if library not in _workers:
        _workers[library] = _Worker(library)
    return _workers[library]


def dismiss() -> None:
    """End the workers; a later question starts them anew."""
    while _workers:
        _workers.popitem()[1].dismiss()


def _digest(question: str) -> str:
    code = sorted((environment.HERE / "libraries").glob("*.py"))
    parts = [question, environment.home().name, *(path.read_text() for path in [*code, environment.HERE / "worker.py"])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _keep(path: Path, text: str) -> None:
    """Written whole, whoever else is writing the same at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as scratch:
        scratch.write(text)
    Path(scratch.name).replace(path)
