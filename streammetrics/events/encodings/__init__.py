"""Encodings of records: Avro, Protobuf and JSON Schema, with or without the frame of a schema registry. Record bytes -> JSON bytes.

The envelopes, the mappings and the native schema then read the JSON. Schemas come in as values: nothing is fetched here.
"""
