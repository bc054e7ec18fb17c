"""Builds the decoders of topics and files.

Readers are Python functions that `events.reader` names, in a file beside the configuration (`reader.py:read`), in an installed module
(`package.module:read`), or shipped with the package (`segment`). This is the only place that runs code of the configuration's. A reader's
digest is that of its file, so it changes with each change of the reader. Files without a topic's name get their topic here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import structs

from streammetrics.config import Settings
from streammetrics.config.results import NATIVE, EventSettings
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.events import Decoder, exposures_of, native_decoder
from streammetrics.events.reader import Reader, reader_decoder
from streammetrics.events.record import topic_of

KEY = "events.reader"
SHIPPED = "streammetrics.readers"
NOT_READERS = ("__init__", "times", "registry")


def build_decoder(settings: Settings, topic: str = "") -> Decoder:
    """Build the decoder of a topic, or of a file by its path. Raises ConfigError for a reader that cannot be loaded."""
    limits, exposures = settings.event_limits, settings.exposures
    source = reader_source(settings, topic)
    if source is None:
        decode: Decoder = native_decoder(limits)
    else:
        limits = structs.replace(limits, numeric_ids=True)  # whole numbers of Python are exact
        decode = reader_decoder(load_reader(source), native_decoder(limits, of_reader=True), limits, topic, source.path)
    return exposures_of(decode, exposures.experiments) if exposures.enabled and exposures.experiments else decode


def build_topic_decoders(settings: Settings, topics: Iterable[str]) -> dict[str, Decoder]:
    """Build one decoder for each topic or file. Empty if all are native: one decoder then decodes them all."""
    return {} if settings.events.reader == NATIVE else {topic: build_decoder(settings, topic) for topic in topics}


def has_reader(settings: Settings, topic: str) -> bool:
    """Return whether a reader says what the fields of a topic or a file mean. In CSV its columns are then just columns."""
    return settings.events.reader_of(topic) != NATIVE


def reads_whole_records(settings: Settings) -> bool:
    """Return whether records are needed with key, headers and timestamp: a reader may use them."""
    return any(has_reader(settings, topic) for topic in settings.kafka.topics)


_LATER_SETTINGS = ("numeric_ids", "positions")
"""Settings that stored state names only where they are set."""


def decoding_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide how bytes become events. For a reader it is the digest of its file. Raises as `build_decoder`."""
    events = settings.events
    unused = {name for name in _LATER_SETTINGS if getattr(events, name) == EventSettings.model_fields[name].default}
    return events.model_dump(exclude=unused | {"reader"}) | _reader_digests(settings)


def _reader_digests(settings: Settings) -> dict[str, Any]:
    """Return the digest of the reader, or of each topic's."""
    reader = settings.events.reader
    if isinstance(reader, str):
        source = reader_source(settings, "")
        return {} if source is None else {"reader": source.digest}
    sources = {topic: reader_source(settings, topic) for topic in sorted(reader)}
    return {"reader": {topic: NATIVE if source is None else source.digest for topic, source in sources.items()}}


@dataclass(frozen=True, slots=True)
class ReaderSource:
    """Where a reader is, and its source if it is a file: processes of other machines need nothing else.

    `module` is empty for a file.
    """

    where: str
    path: str
    content: bytes
    module: str
    function: str

    @property
    def digest(self) -> str:
        return f"{self.function}:{hashlib.sha256(self.content).hexdigest()[:12]}"


class CarriedReader(str):
    """The name of a reader together with its source."""

    source: ReaderSource


def with_sources(settings: Settings) -> Settings:
    """Return settings whose readers bring their sources, for processes on other machines. Raises ConfigError."""

    def carried(where: str) -> str:
        if where == NATIVE:
            return where
        name = CarriedReader(where)
        name.source = _source(where)
        return name

    given = settings.events.reader
    reader = carried(given) if isinstance(given, str) else {topic: carried(where) for topic, where in given.items()}
    return settings.model_copy(update={"events": settings.events.model_copy(update={"reader": reader})})


def shipped_readers() -> list[str]:
    """Return the names of the readers that ship with the package."""
    folder = Path(__file__).parent.parent / "readers"
    return sorted(path.stem for path in folder.glob("*.py") if path.stem not in NOT_READERS and not path.stem.startswith("_"))


def reader_source(settings: Settings, topic: str) -> ReaderSource | None:
    """Return the source of the reader of a topic, or of a file by its path; None for native events. Raises ConfigError."""
    where = settings.events.reader_of(topic)
    return None if where == NATIVE else _source(where)


def load_reader(source: ReaderSource) -> Reader:
    """Return the function of a reader. Its file runs once in a process. Raises ConfigError."""
    try:
        module = importlib.import_module(source.module) if source.module else _module(source.path, source.content)
        read: Reader = getattr(module, source.function)
        if not callable(read):
            raise TypeError(f"{source.function} is no function")
    except StreammetricsError:
        raise
    except (Exception, SystemExit) as error:
        raise _problem(source.where, f"cannot be loaded: {_text(error, source.path)}") from error
    return read


def _source(where: str) -> ReaderSource:
    if isinstance(where, CarriedReader):
        return where.source
    place, _, function = where.rpartition(":")
    if not place:
        if where not in shipped_readers():
            names = ", ".join([*shipped_readers(), NATIVE])
            raise _problem(where, f"is no reader; write reader.py:read, package.module:read, or one of {names}")
        place, function = f"{SHIPPED}.{where}", "read"
    is_file = place.endswith(".py")
    path = place if is_file else _module_path(where, place)
    try:
        return ReaderSource(where, path, Path(path).read_bytes(), "" if is_file else place, function)
    except OSError as error:
        raise _problem(where, f"cannot be read: {error.strerror or error}; a path is taken from the folder of the configuration") from None


def _module_path(where: str, module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
    except (Exception, SystemExit) as error:
        raise _problem(where, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if spec is None or not spec.has_location or spec.origin is None:
        raise _problem(where, f"there is no module {module}; install it, or name a file that ends in .py")
    return spec.origin


@lru_cache(maxsize=64)
def _module(path: str, content: bytes) -> ModuleType:
    """Run the file of a reader. No file of bytecode is written, because an old one could be used by mistake."""
    module = ModuleType(f"streammetrics_reader_{hashlib.sha256(content).hexdigest()[:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look there
    exec(compile(content, path, "exec"), module.__dict__)
    return module


def _text(error: BaseException, path: str) -> str:
    """Return an error, and the line of the reader's file that raised it."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == path:
            line = step.tb_lineno
        step = step.tb_next
    what = error.msg if isinstance(error, SyntaxError) else error
    return f"{type(error).__name__}: {what}" + (f", {Path(path).name}:{line}" if line else "")


def _problem(where: str, rule: str) -> ConfigError:
    return ConfigError([Problem(KEY, where, rule)])


def with_topic(settings: Settings, topic: str) -> Settings:
    """Return the settings with which all files have a topic. Raises ConfigError if no setting names the topic."""
    reader = settings.events.reader
    named = {} if isinstance(reader, str) else reader
    name = topic_of(topic, named)
    if name is None:
        names = ", ".join(sorted(named)) or "there is none"
        raise ConfigError([Problem("--topic", topic, f"events.reader names no reader for this topic ({names})")])
    return settings.model_copy(update={"events": settings.events.model_copy(update={"reader": named[name]})})


def unread_topics(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each reader of a topic that is not in kafka.topics."""
    read = settings.kafka.topics
    for name in () if isinstance(settings.events.reader, str) else settings.events.reader:
        if not any(topic_of(topic, [name]) for topic in read):
            yield f"events.reader names the topic {name}, which `run` does not read: kafka.topics is {', '.join(read)}"
