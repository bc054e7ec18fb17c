"""The inputs of a replay on Spark: their kind, their names, and the topics by which they are decoded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias
from urllib.parse import unquote

InputKind: TypeAlias = Literal["lines", "tables", "records"]
"""Files of lines, files of tables, or records with offsets."""


@dataclass(frozen=True)
class InputNames:
    """All inputs, in order. A file is named by its path, a partition by its topic and number."""

    kind: InputKind
    inputs: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic of each input, by which settings name it; of a file its path."""
        return self.inputs if self.kind != "records" else tuple(name.rpartition(":")[0] for name in self.inputs)

    @property
    def first_offset(self) -> int:
        """What is added to the first offset of an input: lines and rows count from 1."""
        return 0 if self.kind == "records" else 1

    def index(self, name: str) -> int:
        return _indexes(self.inputs)[name if self.kind == "records" else file_name(name)]

    @classmethod
    def of_files(cls, kind: InputKind, uris: Iterable[str]) -> InputNames:
        return cls(kind, tuple(sorted({file_name(uri) for uri in uris})))


@cache
def _indexes(names: tuple[str, ...]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


@cache
def file_name(uri: str) -> str:
    """Return the path of a local file, and the address of any other.

    >>> file_name("file:///logs/day%201.ndjson"), file_name("file:/logs/a"), file_name("s3a://bucket/day 1")
    ('/logs/day 1.ndjson', '/logs/a', 's3a://bucket/day 1')
    """
    name = unquote(uri)
    return "/" + name[5:].lstrip("/") if name.startswith("file:") else name
