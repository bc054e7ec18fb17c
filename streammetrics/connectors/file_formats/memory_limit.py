"""Bounds the memory that reading a file may take. A file of a hundred bytes can claim a row of gigabytes.

The libraries that read files have no such limit. So the process may grow by a fixed size while they work, and what needs more fails.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GROWTH_BYTES_MAX: Final = 1 << 30
"""By how much the process may grow while a chunk of records is read. Larger than any chunk of usual files, and small for a machine."""
TOO_LARGE: Final = f"what follows needs more than {GROWTH_BYTES_MAX >> 20} MiB of memory; the file is damaged, or made to fill memory"
_STATM: Final = Path("/proc/self/statm")
_DATA: Final = 5
"""The place of the size of data and stacks, in pages."""


@contextmanager
def memory_limit(growth_bytes: int = GROWTH_BYTES_MAX) -> Iterator[None]:
    """Let allocations in the block fail (MemoryError) once the process has grown by `growth_bytes`. Without effect outside Linux, and where
    limits may not be set."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[_DATA])
    except OSError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = pages * resource.getpagesize() + growth_bytes
    if soft != resource.RLIM_INFINITY:
        allowed = min(allowed, soft)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    except (OSError, ValueError):  # a sandbox may forbid it
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
