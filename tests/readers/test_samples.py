"""Ordinary records of every reader that ships: none is refused."""

from __future__ import annotations

import pytest

from streammetrics.config import Settings
from streammetrics.events import MalformedEvent
from streammetrics.wiring.decoders import build_decoder, shipped_readers
from tests.readers.reading import json_bytes
from tests.readers.samples import RECORDS


def test_every_reader_that_ships_has_samples() -> None:
    assert sorted(RECORDS) == shipped_readers()


@pytest.mark.parametrize("name", shipped_readers())
def test_no_ordinary_record_is_refused(name: str) -> None:
    settings = Settings.model_validate({"events": {"reader": name}, "exposures": {"enabled": True}})
    for record in RECORDS[name]:
        parts = build_decoder(settings, "topic")(json_bytes(record))
        assert [part for part in parts if isinstance(part, MalformedEvent) and part.reason != "ignored"] == []
