"""The inputs of a replay on Spark (kind, name, topic), and files and frames -> records with their inputs, in the order in which they
arrived.

A file is one input, and Spark reads it in blocks: the order is that of the blocks, and of the lines or rows in each. In a frame an input
is a partition of a topic, and the order is that of the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from streammetrics.errors import CallerError, ConfigError, Problem
from streammetrics.offline.spark.session import reason

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


class Records(NamedTuple):
    """A frame with the columns that `CutRecords` reads, and its inputs."""

    frame: Any
    names: InputNames


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


Format = Literal["auto", "ndjson", "parquet"]
FORMATS: tuple[Format, ...] = ("auto", "ndjson", "parquet")
COLUMNS = ("value", "offset")
"""Columns that a frame needs. It may also have `topic`, `partition`, `timestamp`, `key` and `headers`, as Spark's Kafka source has."""


def read_files(spark: Any, paths: Sequence[str], form: Format = "auto") -> Records:
    """Return the records of files, folders or patterns. `auto`: files named .parquet are Parquet, all others have lines of JSON.

    Raises ConfigError for paths that cannot be read, and for files of both forms.
    """
    if not paths:
        raise ConfigError([Problem("PATH", "(none)", "name at least one file or folder")])
    lines = spark.read.option("lineSep", "\n").option("recursiveFileLookup", "true")  # else a lone CR would end a line
    try:
        frame = lines.text(list(paths))
        files = sorted(frame.inputFiles())
        tables = [name for name in files if name.endswith(".parquet")]
        if form == "auto" and tables and len(tables) < len(files):
            other = next(name for name in files if name not in tables)
            raise ConfigError([Problem("PATH", other, f"is not named .parquet, but {tables[0]} is: name a --format, or other paths")])
        if form == "parquet" or (form == "auto" and tables):
            return _tables(spark.read.option("recursiveFileLookup", "true").parquet(*paths), files)
    except ConfigError:
        raise
    except Exception as error:  # AnalysisException, and what the file system raises
        raise ConfigError([Problem("PATH", ", ".join(paths), f"cannot be read: {reason(error)}")]) from error
    columns = _columns(import_module("pyspark.sql.functions"))
    value = import_module("pyspark.sql.functions").col("value").cast("binary").alias("value")
    return Records(frame.select(*columns, value), InputNames.of_files("lines", files))


def _tables(frame: Any, files: Sequence[str]) -> Records:
    columns = _columns(import_module("pyspark.sql.functions"))
    return Records(frame.select(*columns, "*"), InputNames.of_files("tables", files))


def _columns(functions: Any) -> tuple[Any, Any]:
    """Return the columns with the file of a record, and the start of its block."""
    name = functions.col("_metadata.file_path").alias("__file")
    return name, functions.col("_metadata.file_block_start").alias("__block")


def read_frame(frame: Any) -> Records:
    """Return the records of a frame such as Spark's Kafka source has. Raises CallerError if a column is missing.

    The frame is read twice: once to find its inputs.
    """
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise CallerError("frame", f"has no column {missing[0]!r}; it needs {' and '.join(COLUMNS)}, and has {', '.join(frame.columns)}")
    functions = import_module("pyspark.sql.functions")
    topic = functions.col("topic") if "topic" in frame.columns else functions.lit("events")
    number = functions.col("partition") if "partition" in frame.columns else functions.lit(0)
    name = functions.concat(topic, functions.lit(":"), number.cast("string"))
    stamp = functions.unix_millis(functions.col("timestamp")) if "timestamp" in frame.columns else functions.lit(-1)
    key = functions.col("key") if "key" in frame.columns else functions.lit(None)
    headers = functions.col("headers") if "headers" in frame.columns else functions.lit(None)
    records = frame.select(
        name.alias("input"),
        functions.lit(0).cast("long").alias("block"),
        functions.col("offset").cast("long").alias("offset"),
        functions.coalesce(stamp.cast("long"), functions.lit(-1).cast("long")).alias("stamp"),
        functions.col("value").cast("binary").alias("value"),
        key.cast("binary").alias("key"),
        headers.cast("array<struct<key:string,value:binary>>").alias("headers"),
    )
    names = sorted(row[0] for row in records.select("input").distinct().collect())
    in_order = records.repartition(max(1, len(names)), "input").sortWithinPartitions("input", "offset")
    return Records(in_order, InputNames("records", tuple(names)))
