"""Apache Avro's own test data, as its Python package `avro` ships it: schemas with values, encodings of numbers, and interop.avsc."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from importlib.resources import files
from itertools import product
from typing import Any

import avro.io
import avro.schema
import pytest
from avro.test.test_io import BINARY_ENCODINGS, SCHEMAS_TO_VALIDATE

from streammetrics.events.encodings.avro import avro_reader
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText, encode_json
from tests.support.tables import for_each


def written(schema: str, value: Any) -> bytes:
    """Return a value as Apache's own writer encodes it."""
    out = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(schema)).write(value, avro.io.BinaryEncoder(out))
    return out.getvalue()


def read(schema: str, value: bytes) -> Any:
    return json.loads(avro_reader(SchemaText("AVRO", schema))(value))


def as_expected(schema: str, value: Any) -> Any:
    """Return a value as this package promises it in JSON."""
    if isinstance(value, datetime.datetime) and "timestamp-millis" in schema:
        return int(value.timestamp()) * 1_000 + value.microsecond // 1_000
    if isinstance(value, datetime.datetime):
        return json.loads(encode_json(value.astimezone(datetime.UTC)))
    return json.loads(encode_json(float(value) if isinstance(value, Decimal) else value))


NAMED_LIKE_A_TYPE = [pair for pair in SCHEMAS_TO_VALIDATE if '"name": "record"' in pair[0]]
"""A record whose name is `record`. fastavro cannot read it."""
READ = [pair for pair in SCHEMAS_TO_VALIDATE if pair not in NAMED_LIKE_A_TYPE]


def test_a_type_with_the_name_of_a_kind_is_refused_with_its_schema() -> None:
    ((schema, _),) = NAMED_LIKE_A_TYPE
    with pytest.raises(SchemaProblemError, match="a type is named record, which fastavro cannot read"):
        avro_reader(SchemaText("AVRO", schema))


def test_there_is_data() -> None:
    assert (len(SCHEMAS_TO_VALIDATE) > 40, len(BINARY_ENCODINGS) > 8) == (True, True)


@pytest.mark.filterwarnings("ignore::avro.errors.IgnoredLogicalType")
@pytest.mark.parametrize(("schema", "value"), READ, ids=[str(number) for number in range(len(READ))])
def test_each_value_is_read(schema: str, value: Any) -> None:
    assert read(schema, written(schema, value)) == as_expected(schema, value)


@for_each(product(BINARY_ENCODINGS, ["int", "long"]))
def test_each_encoding_of_a_number_is_read(case: tuple[tuple[int, bytes], str]) -> None:
    (number, encoding), kind = case
    assert read(f'"{kind}"', bytes.fromhex(encoding.decode())) == number


def test_a_record_of_interop_is_read() -> None:
    schema = files("avro").joinpath("interop.avsc").read_text(encoding="utf-8")
    leaf = {"label": "leaf", "children": []}
    event = {
        "intField": 12,
        "longField": 15234324,
        "stringField": "hey",
        "boolField": True,
        "floatField": 1234.0,
        "doubleField": -1234.0,
        "bytesField": b"12312adf",
        "nullField": None,
        "arrayField": [5.0, 0.0, 12.0],
        "mapField": {"a": {"label": "a"}, "bee": {"label": "cee"}},
        "unionField": 12.0,
        "enumField": "C",
        "fixedField": b"1019181716151413",
        "recordField": {"label": "blah", "children": [{"label": "inner", "children": [leaf]}]},
    }
    assert read(schema, written(schema, event)) == json.loads(encode_json(event))
