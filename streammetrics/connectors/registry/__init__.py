"""Schemas from a registry or a file: the client, the compiler of .proto files, the cache, and the source that waits for schemas."""
