"""The machine and the interpreter that the figures belong to."""

from __future__ import annotations

import os
import platform
import sysconfig
from pathlib import Path


def description() -> str:
    """Return one line: processor, cores, Python and how it was built."""
    return f"{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()} ({platform.python_compiler()}, {_optimisations()})"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _optimisations() -> str:
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    profiled = "with" if "--enable-optimizations" in arguments else "without"
    linked = "with" if "--with-lto" in arguments else "without"
    return f"{profiled} profile-guided optimisation, {linked} link-time optimisation"
