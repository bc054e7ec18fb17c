"""Records behind a schema registry (Confluent or Apicurio), by Confluent's client: pip install 'streammetrics[registry]'.

    from streammetrics.readers import registry
    from shop_pb2 import Order

    decode = registry.decoder("https://registry:8081", basic_auth_user_info="alice:secret", messages=[Order])

    def read(record):
        click = decode(record)
        yield {"type": "feedback", "user_id": click["visitor"], "ts": click["at"], "item_id": click["sku"], "action": "click"}

While the registry does not answer, the input waits. A record whose schema it does not know is refused, and so is one whose schema could
make few bytes fill the memory.
"""

import io
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from streammetrics.readers import Later, Record

try:
    import fastavro
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError
except ImportError as error:
    raise ImportError(f"{error}; pip install 'streammetrics[registry]'") from None

ASK_AGAIN_SECONDS: Final = 60
UNKNOWN_MAX: Final = 1_000
"""Ids that are remembered as unknown."""
NOT_FOUND: Final = (40401, 40402, 40403)
"""Codes of Confluent's API: no such subject, version or schema."""
AVRO_BYTES: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "enum": 1}


def decoder(url: str, *, messages: Sequence[Any] = (), content_ids: bool = False, **options: Any) -> Callable[[Record], Any]:
    """Return a function from a record to its content. Records without the frame of a registry are JSON.

    Avro and JSON become dicts. Protobuf becomes one of `messages`, the classes that protoc generates. `options` are those of the client
    with underscores for dots, such as `ssl_ca_location` and `timeout` (seconds). `content_ids`: ids of eight bytes, as Apicurio before
    3.0 writes, are content ids.
    """
    client = SchemaRegistryClient(
        {"url": url, "timeout": 5, "max.retries": 0} | {name.replace("_", "."): options[name] for name in options}
    )
    place = urlsplit(url)._replace(netloc=urlsplit(url).netloc.rpartition("@")[2]).geturl()
    parsers: dict[int, Callable[[bytes], Any]] = {}
    unknown: dict[int, float] = {}

    def decode(record: Record) -> Any:
        value = record.value
        if len(value) < 5 or value[0]:
            return record.json()
        start = 5 if any(value[1:5]) else 9
        if start == 9 and not content_ids:
            raise ValueError("its schema id has 8 bytes; if such ids are content ids, pass content_ids=True")
        number = int.from_bytes(value[1:start])
        if number not in parsers:
            parsers[number] = parser(number)
        return parsers[number](value[start:])

    def parser(number: int) -> Callable[[bytes], Any]:
        if time.monotonic() - unknown.get(number, float("-inf")) > ASK_AGAIN_SECONDS:
            try:
                schema = client.get_schema(number)
                imports = _imports(client, schema)
            except SchemaRegistryError as error:
                if error.http_status_code != 404 or error.error_code not in NOT_FOUND:
                    raise Later(f"the schema registry at {place} answers {error}") from error
                if len(unknown) > UNKNOWN_MAX:
                    unknown.clear()
                unknown[number] = time.monotonic()
            except Exception as error:  # of the network, of TLS, or an answer that is no schema
                raise Later(f"the schema registry at {place} does not answer: {error or type(error).__name__}") from error
            else:
                return _parser(schema, imports, messages)
        raise LookupError(f"schema id {number} is not in the schema registry")

    return decode


def _imports(client: SchemaRegistryClient, schema: Schema) -> list[str]:
    """Return the texts of the schemas that a schema refers to, each after its own."""
    texts: list[str] = []
    for reference in schema.references or ():
        imported = client.get_version(str(reference.subject), int(reference.version or 1)).schema
        texts += [*_imports(client, imported), str(imported.schema_str)]
    return texts


def _parser(schema: Schema, imports: Sequence[str], messages: Sequence[Any]) -> Callable[[bytes], Any]:
    """Return a function from the bytes after a frame to their content. Raises ValueError for a schema that cannot be used."""
    if schema.schema_type == "JSON":
        return lambda body: Record(body).json()
    if schema.schema_type == "PROTOBUF":
        return partial(_message, {prefix: message for message in messages for prefix in _prefixes(message)})
    named: dict[str, Any] = {}
    for text in imports:
        fastavro.parse_schema(json.loads(text), named)
    parsed = fastavro.parse_schema(json.loads(str(schema.schema_str)), named, expand=True)
    _least_bytes(parsed)
    return partial(_avro, parsed)


def _avro(schema: Any, body: bytes) -> Any:
    stream = io.BytesIO(body)
    content = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(body):
        raise ValueError(f"{len(body) - stream.tell()} bytes follow the Avro record")
    return content


def _least_bytes(schema: Any) -> int:
    """Return how few bytes a value may have. Raises ValueError for a schema that lets few bytes claim any number of values or any depth."""
    if isinstance(schema, list):
        return 1 + min([_least_bytes(branch) for branch in schema], default=0)
    if isinstance(schema, str):
        if schema not in AVRO_BYTES:
            raise ValueError(f"its Avro schema contains itself ({schema}), so a record could have any depth")
        return AVRO_BYTES[schema]
    kind = schema["type"]
    if kind in ("record", "error"):
        return sum([_least_bytes(field["type"]) for field in schema["fields"]])
    if kind in ("array", "map"):
        if _least_bytes(schema["items" if kind == "array" else "values"]) == 0 and kind == "array":
            raise ValueError("its Avro schema has an array of values without bytes, so a short record could claim any number of them")
        return 1
    return int(schema["size"]) if kind == "fixed" else _least_bytes(kind)


def _message(classes: dict[bytes, Any], body: bytes) -> Any:
    for prefix, message in classes.items():
        if body.startswith(prefix):
            return message.FromString(body[len(prefix) :])
    raise LookupError(f"no class for its Protobuf message ({body[:8].hex(' ')}); pass it: messages=[…]")


def _prefixes(message: Any) -> list[bytes]:
    """Return what precedes a message: its indexes in its file (Confluent), or its name (Apicurio before 3.0)."""
    indexes, descriptor, name = list[int](), message.DESCRIPTOR, message.DESCRIPTOR.name.encode()
    while descriptor is not None:
        within = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name.values() if within is None else within.nested_types
        indexes.insert(0, [sibling.full_name for sibling in siblings].index(descriptor.full_name))
        descriptor = within
    prefixes = [b"".join(map(_varint, [len(indexes), *indexes])), bytes([len(name) + 2, 10, len(name)]) + name]
    return [*prefixes, b"\x00"] if indexes == [0] else prefixes


def _varint(number: int) -> bytes:
    """Return a small number as a zigzag varint."""
    return bytes([2 * number]) if number < 64 else bytes([2 * number & 0x7F | 0x80, number >> 6])
