"""Gets the values of the libraries. Each has a worker process; results are cached in .cache.

A cache key covers everything that a result depends on: the lists, the worker's code and the environment.
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
"""Slowest first."""

Answers = dict[str, list[Any]]


def _everything(library: str) -> list[Case]:
    """All test lists, without what the library does not accept: unseen items, or judgments of 0."""
    if library in ("sklearn", "torchmetrics"):
        return cases.without_unseen(cases.every_case())
    if library in ("lenskit", "rectools"):
        return cases.without_zeros(cases.every_case())
    return cases.every_case()


@cache
def asked(library: str) -> Sequence[Case]:
    """The test lists of the library."""
    return _everything(library)


@cache
def _all_answers() -> Mapping[str, Answers]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(LIBRARIES, pool.map(lambda library: ask(library, asked(library)), LIBRARIES), strict=True))


def answers(library: str) -> Answers:
    """The values of each measure for the lists of `asked`. The first call runs all libraries in parallel."""
    return _all_answers()[library]


def ask(library: str, lists: Sequence[Case], cutoffs: Sequence[int] = cases.CUTOFFS) -> Answers:
    """The values of one library for these lists, by measure: a number, NaN, or the name of the exception."""
    question = json.dumps({"lists": [[case.items, case.grades, case.scores] for case in lists], "cutoffs": cutoffs})
    kept = environment.CACHE / "answers" / f"{library}-{_digest(question)}.json"
    if not kept.exists():
        _keep(kept, _worker(library).ask(question))
    document: Answers = json.loads(kept.read_text())
    return document


class _Worker:
    """A process in the golden environment that keeps one library imported, because imports are slow."""

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
            raise RuntimeError(f"{self.library} did not answer; see standard error for the reason")
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
    """Stop all workers. The next question starts new ones."""
    while _workers:
        _workers.popitem()[1].dismiss()


def _digest(question: str) -> str:
    code = sorted((environment.HERE / "libraries").glob("*.py"))
    parts = [question, environment.home().name, *(path.read_text() for path in [*code, environment.HERE / "worker.py"])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _keep(path: Path, text: str) -> None:
    """Write the file atomically, because other test processes may write it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as scratch:
        scratch.write(text)
    Path(scratch.name).replace(path)
