"""Records as the official serializers of Confluent write them, against a real registry, and schemas for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.events import samples
from tests.tools.servers.registry import SchemaRegistry

IMPRESSION: Final = {name: value for name, value in samples.IMPRESSION.items() if name != "segments"}
FEEDBACK: Final = samples.FEEDBACK

AVRO_IMPRESSION: Final = {
    "type": "record",
    "name": "Impression",
    "namespace": "shop",
    "fields": [
        {"name": "type", "type": "string", "default": "impression"},
        {"name": "impression_id", "type": "string"},
        {"name": "user_id", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "items", "type": {"type": "array", "items": "string"}},
        {"name": "experiments", "type": ["null", {"type": "map", "values": "string"}], "default": None},
    ],
}
AVRO_FEEDBACK: Final = {
    "type": "record",
    "name": "Feedback",
    "namespace": "shop",
    "fields": [
        {"name": "type", "type": {"type": "enum", "name": "Kind", "symbols": ["impression", "feedback"]}},
        {"name": "user_id", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "impression_id", "type": ["null", "string"], "default": None},
        {"name": "item_id", "type": "string"},
        {"name": "action", "type": "string"},
        {"name": "value", "type": ["null", "double"], "default": None},
    ],
}
JSON_SCHEMA: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Event",
    "type": "object",
    "required": ["type", "user_id", "ts"],
    "properties": {"type": {"enum": ["impression", "feedback"]}, "ts": {"type": "integer"}},
}


def _proto_file() -> bytes:
    """Return what protoc makes of a file shop.proto: its messages Other (with Inner), Impression and Feedback."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    other = file.message_type.add(name="Other")
    other.nested_type.add(name="Inner").field.add(name="text", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    texts = ["type", "impression_id", "user_id", "items"], ["type", "user_id", "impression_id", "item_id", "action"]
    for name, names in zip(("Impression", "Feedback"), texts, strict=True):
        message = file.message_type.add(name=name)
        message.field.add(name="ts", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
        for number, text in enumerate(names, 2):
            label = field.LABEL_REPEATED if text == "items" else field.LABEL_OPTIONAL
            message.field.add(name=text, number=number, type=field.TYPE_STRING, label=label)
    return file.SerializeToString()


PROTO_FILE: Final = _proto_file()


def proto_message(name: str) -> Any:
    """Return the class of a message, such as Feedback or Other.Inner."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(PROTO_FILE)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))


class OfficialSerializers:
    """Confluent's serializers for one topic. They register the schemas, each with its first record."""

    def __init__(self, registry: SchemaRegistry, topic: str) -> None:
        self._client = SchemaRegistryClient({"url": registry.url})
        self._place = SerializationContext(topic, MessageField.VALUE)
        self._made: dict[object, Any] = {}

    def avro(self, schema: dict[str, Any], event: dict[str, Any]) -> bytes:
        text = json.dumps(schema)
        return self._written(text, lambda: AvroSerializer(self._client, text), event)

    def json(self, schema: dict[str, Any], event: dict[str, Any]) -> bytes:
        text = json.dumps(schema)
        return self._written(text, lambda: JSONSerializer(text, self._client), event)

    def protobuf(self, message: Any) -> bytes:
        kind = type(message)
        return self._written(kind, lambda: ProtobufSerializer(kind, self._client, {"use.deprecated.format": False}), message)

    def _written(self, key: object, make: Callable[[], Any], event: Any) -> bytes:
        if key not in self._made:
            self._made[key] = make()
        return bytes(self._made[key](event, self._place))
