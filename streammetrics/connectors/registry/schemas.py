"""The schemas of a registry by what names them in records: fetched in a thread of their own, tried again for ever, and kept within a bound.

A schema never changes under its id, so one that was found is kept until others need its place. That an id is unknown is kept for a
minute: the schema may be registered later.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import structlog
import tenacity

from streammetrics.connectors.registry.client import RegistryClient, RegistryError, UnknownSchemaError
from streammetrics.connectors.registry.readers import registered_reader
from streammetrics.connectors.source import SchemaWait
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.encodings.frames import SchemaRef
from streammetrics.events.encodings.schema_text import MissingPackageError, SchemaProblemError, of_unknown_schema, of_unusable_schema
from streammetrics.events.sent_value import ToJson

SCHEMAS_MAX: Final = 1_000
UNKNOWN_SECONDS: Final = 60.0
WAIT_SECONDS_MAX: Final = 5.0

SchemaKey: TypeAlias = Hashable
"""The bytes of a frame, or the header, that name a schema."""

log = structlog.get_logger("streammetrics.registry")


class _Kept(NamedTuple):
    """A reader that was found. `until`: monotonic seconds after which to ask again; None: never."""

    to_json: ToJson
    until: float | None = None


@dataclass(slots=True)
class _Wanted:
    """A schema that is not there yet."""

    ref: SchemaRef
    since: float
    failures: int = 0
    error: str = ""


class Schemas:
    """A bounded cache of readers. `find` never waits; `load` does. Both may be used by one thread beside the cache's own."""

    def __init__(
        self,
        client: RegistryClient,
        *,
        check_json: bool = False,
        schemas_max: int = SCHEMAS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client, self._check_json, self._max, self._clock = client, check_json, schemas_max, clock
        self._kept: OrderedDict[SchemaKey, _Kept] = OrderedDict()
        self._wanted: dict[SchemaKey, _Wanted] = {}
        self._lock, self._arrived, self._stopped = threading.Lock(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._fatal: ConfigError | None = None
        self._was_away = False

    def find(self, key: SchemaKey, ref: SchemaRef) -> ToJson | None:
        """Return the reader of a schema. None: it is not there yet and is being fetched. Raises ConfigError for a missing package."""
        with self._lock:
            if self._fatal is not None:
                raise self._fatal
            kept = self._kept.get(key)
            if kept is not None and (kept.until is None or self._clock() < kept.until):
                self._kept.move_to_end(key)
                return kept.to_json
            self._wanted.setdefault(key, _Wanted(ref, self._clock()))
        if self._thread is None:
            self._thread = threading.Thread(target=self._fetch_all, name="streammetrics-schemas", daemon=True)
            self._thread.start()
        self._arrived.set()
        return None

    def load(self, key: SchemaKey, ref: SchemaRef) -> ToJson:
        """Return the reader of a schema, and wait for one request. Raises RegistryError, and ConfigError for a missing package."""
        with self._lock:
            kept = self._kept.get(key)
        return kept.to_json if kept is not None else self._keep(key, self._ask(ref)).to_json

    def forget(self, keys: set[SchemaKey]) -> None:
        """Stop fetching all schemas except these: no record waits for the others any more."""
        with self._lock:
            self._wanted = {key: wanted for key, wanted in self._wanted.items() if key in keys}

    def wait_of(self, inputs: int) -> SchemaWait:
        """Return what `inputs` inputs wait for: since when, and why the registry did not answer, if it failed."""
        with self._lock:
            failing = [wanted for wanted in self._wanted.values() if wanted.failures]
        worst = min(failing, key=lambda wanted: wanted.since, default=None)
        return SchemaWait(inputs) if worst is None else SchemaWait(inputs, worst.since, worst.failures, worst.error)

    @property
    def size(self) -> int:
        return len(self._kept)

    def close(self) -> None:
        self._stopped.set()
        self._arrived.set()

    def _fetch_all(self) -> None:
        """Fetch wanted schemas, one round after the other. A round in which all requests fail is followed by a longer wait."""
        rounds_failed = 0
        backoff = tenacity.wait_random_exponential(multiplier=0.2, max=WAIT_SECONDS_MAX)
        while not self._stopped.is_set():
            with self._lock:
                wanted = list(self._wanted.items())
            if not wanted:
                rounds_failed = 0
                self._arrived.wait()
                self._arrived.clear()
                continue
            answered = [self._try(key, each) for key, each in wanted]
            if all(answered):
                rounds_failed = 0
                continue
            rounds_failed = 1 if any(answered) else rounds_failed + 1
            self._stopped.wait(_delay(backoff, rounds_failed))

    def _try(self, key: SchemaKey, wanted: _Wanted) -> bool:
        """Ask for one schema. Returns whether the registry answered."""
        if self._stopped.is_set():
            return True
        try:
            kept = self._ask(wanted.ref)
        except RegistryError as error:
            if not self._was_away:
                self._was_away = True
                log.warning("schema registry unavailable, trying again; inputs wait for it", schema=str(wanted.ref), error=str(error))
            with self._lock:
                wanted.failures, wanted.error = wanted.failures + 1, str(error)
            return False
        except ConfigError as error:
            with self._lock:
                self._fatal = error
            return True
        except Exception as error:  # the thread must not end: inputs would wait for ever, without a word
            log.error("a schema could not be read", schema=str(wanted.ref), error=repr(error))
            kept = _Kept(of_unusable_schema(f"{wanted.ref} cannot be used: {error!r}"), self._clock() + UNKNOWN_SECONDS)
        if self._was_away:
            self._was_away = False
            log.info("schema registry available again", away_seconds=round(self._clock() - wanted.since, 1))
        self._keep(key, kept)
        return True

    def _ask(self, ref: SchemaRef) -> _Kept:
        place = self.client.settings.place
        try:
            return _Kept(registered_reader(self.client.fetch(ref), ref, self._check_json))
        except UnknownSchemaError:
            detail = f"{ref} is not in the schema registry at {place}; register the schema, or correct registry.url and registry.id_kind"
            return _Kept(of_unknown_schema(detail), self._clock() + UNKNOWN_SECONDS)
        except SchemaProblemError as error:
            log.warning("a registered schema cannot be used", schema=str(ref), error=str(error))
            return _Kept(of_unusable_schema(f"{ref} of the schema registry at {place} cannot be used: {error}"))
        except MissingPackageError as error:
            raise ConfigError([Problem("registry.url", place, f"has {ref}: {error}")]) from None

    def _keep(self, key: SchemaKey, kept: _Kept) -> _Kept:
        with self._lock:
            self._wanted.pop(key, None)
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > self._max:
                self._kept.popitem(last=False)
        return kept


def _delay(backoff: Callable[[tenacity.RetryCallState], float], failures: int) -> float:
    """Return the wait after so many failed rounds, by the rule of the retries elsewhere."""
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = failures
    return max(0.05, backoff(state))
