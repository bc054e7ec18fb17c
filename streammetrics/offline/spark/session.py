"""The session of Spark: the user's own one, or a new one. Says what is missing before Spark fails in its own way."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from streammetrics.errors import ConfigError, Problem, StreammetricsError

BATCHES: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}
"""Limits of what a Python process of Spark gets at once. The rows of the passes are large."""
_LOCAL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
"""Settings of a new session on this machine: quiet, and without an open port."""


def require_spark() -> None:
    """Raise ConfigError if a package that Spark needs here is not installed, or if there is no Java to start it."""
    problems = [
        Problem(package, "(none)", "is not installed: pip install 'streammetrics[spark]'")
        for package in ("pyspark", "pyarrow")
        if find_spec(package) is None
    ]
    if not problems and _starts_java() and shutil.which("java", path=_java_path()) is None:
        place = os.environ.get("JAVA_HOME", "(none)")
        problems = [Problem("JAVA_HOME", place, "has no java, and neither has PATH: install Java 17 or newer")]
    if problems:
        raise ConfigError(problems)


def _starts_java() -> bool:
    """Return whether a session would start Java: not if spark-submit has started it, or if Spark is remote."""
    return "PYSPARK_GATEWAY_PORT" not in os.environ and "SPARK_REMOTE" not in os.environ


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin") if home else os.environ.get("PATH", os.defpath)


def spark_session(master: str | None = None) -> Any:
    """Return the active session, that of spark-submit, or a new one. `master` is for a new one; None: all cores of this machine.

    Raises ConfigError for what is missing, and StreammetricsError if Spark does not start.
    """
    require_spark()
    session = import_module("pyspark.sql").SparkSession
    active = session.getActiveSession()
    if active is not None:
        return active
    builder = session.builder.appName("streammetrics replay")
    if _starts_java():
        master = master or os.environ.get("MASTER", "local[*]")
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark starts the python3 of PATH, which may lack the packages
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            for name, value in _LOCAL.items():
                builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Spark and Py4J raise many kinds
        raise StreammetricsError(f"Spark does not start: {reason(error)}") from error


@contextmanager
def configured(spark: Any) -> Iterator[None]:
    """Set the limits of batches while the block runs."""
    before = {name: spark.conf.get(name, None) for name in BATCHES}
    for name, value in BATCHES.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value_before in before.items():
            if value_before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value_before)


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Ignore Spark's warning that it does not know the newest pandas. No pass uses pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn errors of Spark into StreammetricsError, with the line that says what was wrong."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise StreammetricsError(f"Spark failed: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return the line of an error of Spark that says what was wrong. Errors in a Python process end with their own message.

    >>> reason(Exception("An exception was thrown:\\nTraceback (most recent call last):\\n  File ...\\nValueError: no such column\\n"))
    'ValueError: no such column'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    if any(line.startswith("Traceback") for line in lines):
        start = max(number for number, line in enumerate(lines) if line.startswith("Traceback"))
        lines = [line for line in lines[start + 1 :] if not line.startswith(("File ", "^", "~"))][-1:] or lines
    return lines[0] if lines else type(error).__name__
