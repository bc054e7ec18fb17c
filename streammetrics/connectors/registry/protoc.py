"""Compiles the text of .proto files to descriptors, with the official compiler (grpcio-tools), in a process and a folder of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from streammetrics.events.encodings.protobuf import descriptor_set, is_descriptor
from streammetrics.events.encodings.schema_text import MissingPackageError, SchemaProblemError, SchemaText

COMPILE_SECONDS_MAX: Final = 60
MAIN_FILE: Final = "streammetrics_schema.proto"
_CONFLUENT: Final = {
    "confluent/meta.proto": """syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}
"""Files that Confluent's registry has built in, so that schemas import them without a reference."""


def compiled(schema: SchemaText) -> bytes:
    """Return the FileDescriptorSet of a Protobuf schema, its own file last. Raises SchemaProblemError and MissingPackageError."""
    if is_descriptor(schema.text):
        if any(not is_descriptor(text) for text in schema.references.values()):
            raise SchemaProblemError("it is a descriptor that imports the text of .proto files; register both in one form")
        return descriptor_set({**schema.references, "": schema.text})
    with tempfile.TemporaryDirectory(prefix="streammetrics-proto-") as folder:
        texts = {**_CONFLUENT, **schema.references, MAIN_FILE: schema.text}
        for name, text in texts.items():
            if is_descriptor(text):
                raise SchemaProblemError(f"it imports {name}, which is a descriptor; register both as the text of .proto files")
            path = Path(folder, _safe(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return run_protoc(Path(folder), MAIN_FILE)


def run_protoc(folder: Path, name: str) -> bytes:
    """Compile one file of a folder with its imports. Raises SchemaProblemError with the compiler's message, and MissingPackageError."""
    if find_spec("grpc_tools") is None:
        raise MissingPackageError("grpcio-tools", "protobuf", "the text of a .proto file")
    with tempfile.TemporaryDirectory(prefix="streammetrics-proto-") as outside:
        out = Path(outside, "set")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports", f"--descriptor_set_out={out}", name]
        try:
            done = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            raise SchemaProblemError(f"the compiler did not end within {COMPILE_SECONDS_MAX} s") from None
        if done.returncode != 0 or not out.exists():
            said = [line for line in done.stderr.splitlines() if line.strip() and "warning" not in line.lower()]
            lines = [line for line in said if re.match(r"[^\s:]+:\d+:", line)] or said
            raise SchemaProblemError("; ".join(lines[:3])[:300] or f"the compiler ended with {done.returncode}")
        return out.read_bytes()


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise SchemaProblemError(f"it imports {name!r}, which is not a path inside a folder")
    return path
