"""The check of `doctor` for a schema registry: does it answer, and are the packages there for what it may name?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.errors import SourceError
from streammetrics.wiring.encodings import INSTALL, missing_packages
from streammetrics.wiring.registry import build_schemas, registry_connection

if TYPE_CHECKING:
    from streammetrics.config import Settings
    from streammetrics.connectors.kafka.recent_records import RecentRecord
    from streammetrics.connectors.registry.schemas import Schemas

ANSWER_MS = 2_000


def registry_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Check whether the registry answers with our login."""
    connection = registry_connection(settings)
    if connection is None:
        return
    from streammetrics.connectors.registry.client import RegistryClient  # noqa: PLC0415

    RegistryClient(replace(connection, timeout_ms=min(connection.timeout_ms, ANSWER_MS))).check()
    login = "a token" if settings.registry.token else f"user {settings.registry.username}" if settings.registry.username else "no login"
    yield DoctorFinding("ok", f"answers, with {login}")
    for warning in missing_packages(settings):
        yield DoctorFinding("warn", warning.removesuffix(f": {INSTALL}"), INSTALL)


def with_schemas(
    settings: Settings, records: Mapping[str, Sequence[RecentRecord]]
) -> tuple[dict[str, list[RecentRecord]], list[DoctorFinding]]:
    """Return the records with the schemas that they name, and what was found. Records whose schema could not be asked for are left out."""
    schemas = build_schemas(settings, ANSWER_MS)
    if schemas is None:
        return {topic: list(found) for topic, found in records.items()}, []
    read: dict[str, list[RecentRecord]] = {}
    findings: list[DoctorFinding] = []
    for topic, found in records.items():
        try:
            read[topic], named = _of_topic(schemas, found)
        except SourceError as error:
            findings.append(DoctorFinding("fail", f"topic {topic}: its records were not checked: {error.message}", error.fix))
            continue
        if named:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(named.items()))
            findings.append(DoctorFinding("ok", f"topic {topic}: schemas of recent records: {listed}"))
    return read, findings


def _of_topic(schemas: Schemas, records: Sequence[RecentRecord]) -> tuple[list[RecentRecord], Counter[str]]:
    from streammetrics.connectors.registry.source import loaded, schema_named  # noqa: PLC0415  slow import

    read, named = [], Counter[str]()
    for record in records:
        read.append(record._replace(value=loaded(record.value, schemas)))
        found = None if record.value is None else schema_named(record.value, schemas.client.settings.id_kind)
        if found is not None and found[1] is not None:
            named[str(found[1])] += 1
    return read, named
