"""The typed parser reads ordinary records, and finds in every record what the explainer finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import EventLimits, Exposure, Feedback, Impression, MalformedEvent
from streammetrics.events.mappings.decoder import mapped_decoder, typed_decoder
from streammetrics.events.mappings.explainer import Explainer
from streammetrics.events.mappings.presets import preset_rules
from streammetrics.events.mappings.rules import PRESETS, MappingRule, parse_mappings
from streammetrics.events.mappings.typed import NotTypedError
from streammetrics.events.model import RecordPart
from tests.events.mappings.samples import RECORDS, TABLES
from tests.fuzz.mutations import NUMBERS, TEXTS, TIMES, changed, places
from tests.support.tables import for_each

LIMITS = EventLimits(items_max=5, id_chars_max=60, label_chars_max=40, exposures=True)
RULES = {**{name: parse_mappings(tables) for name, tables in TABLES.items()}, **{name: preset_rules(name) for name in PRESETS}}


def refused(value: bytes | None) -> Sequence[RecordPart]:
    raise AssertionError(f"the typed parser refused {value!r}")


def explained(rules: Sequence[MappingRule], value: bytes, limits: EventLimits = LIMITS) -> str:
    return str(list(Explainer(rules, limits, {}, [None] * len(rules))(value)))


@for_each(RECORDS)
def test_the_typed_parser_reads_ordinary_records(name: str) -> None:
    rules = RULES[name]
    decode = typed_decoder(rules, LIMITS, {}, [None] * len(rules), refused)
    for record in RECORDS[name]:
        for ensure_ascii in (True, False):
            value = json.dumps(record | {"unused": "é\n"}, ensure_ascii=ensure_ascii).encode()
            found = decode(value)
            assert str(list(found)) == explained(rules, value)
            assert all(type(event) in (Impression, Feedback, Exposure) or event.reason == "ignored" for event in found)


def test_a_field_that_is_needed_whole_and_in_parts_is_read_by_the_explainer() -> None:
    shown = {"kind": "impression", "user_id": "u", "ts": "t", "impression_id": "i", "items": "a.items", "experiments": "a"}
    rules = parse_mappings([shown])
    with pytest.raises(NotTypedError):
        typed_decoder(rules, LIMITS, {}, [None], refused)
    (found,) = mapped_decoder(rules, LIMITS, {})(b'{"u":"u","t":5,"i":"r","a":{"items":["x"]}}')
    assert found == Impression("r", "u", 5, ("x",), label_notes=("label_bad_type",))


VALUES = st.recursive(
    st.sampled_from([None, *TEXTS, *TIMES, *NUMBERS]) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(["id", "sku", "place", "team", "key"]), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
def test_the_typed_parser_finds_what_the_explainer_finds(name: str, data: st.DataObject) -> None:
    record: Any = data.draw(st.sampled_from(RECORDS[name]))
    for _ in range(data.draw(st.integers(0, 3))):
        record = changed(record, data.draw(st.sampled_from(places(record))), data.draw(VALUES))
    value = json.dumps(record, ensure_ascii=data.draw(st.booleans())).encode(errors="surrogatepass")
    if data.draw(st.integers(0, 9)) == 0:
        value = value[: data.draw(st.integers(0, len(value)))] + data.draw(st.sampled_from([b"", b"\xff", b"\\ud800", b'"'])) + value[5:]
    assert str(list(mapped_decoder(RULES[name], LIMITS, {})(value))) == explained(RULES[name], value)


@pytest.mark.parametrize("first_place", [None, 1])
@given(items=st.lists(st.fixed_dictionaries({}, optional={"sku": VALUES, "place": VALUES, "team": VALUES}), max_size=6))
def test_items_with_positions_agree(first_place: int | None, items: list[Any]) -> None:
    limits = EventLimits(items_max=5, first_place=first_place)
    for name in ("objects", "ordered", "teams"):
        value = json.dumps(RECORDS[name][0] | {"skus": items}).encode()
        assert str(list(mapped_decoder(RULES[name], limits, {})(value))) == explained(RULES[name], value, limits)


@pytest.mark.parametrize("name", ["texts", "objects"])
def test_records_with_bad_parts_change_nothing_for_others(name: str) -> None:
    rules, record = RULES[name], RECORDS[name][0]
    decode = mapped_decoder(rules, LIMITS, {})
    good, bad = (json.dumps(each).encode() for each in (record, record | {"user": [7]}))
    expected = {value: explained(rules, value) for value in (good, bad)}
    for value in [good, bad, good, bad, bad, good] * 50:
        assert str(list(decode(value))) == expected[value]


def test_a_malformed_record_has_its_reason_from_the_explainer() -> None:
    rules = RULES["texts"]
    (found,) = mapped_decoder(rules, LIMITS, {})(json.dumps(RECORDS["texts"][0] | {"skus": ["a"] * 6}).encode())
    assert isinstance(found, MalformedEvent)
    assert found.reason == "too_many_items"
