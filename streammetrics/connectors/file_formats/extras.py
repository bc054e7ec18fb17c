"""Imports packages that only some installations have."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streammetrics.errors import ConfigError, Problem


def optional_module(name: str, path: str, what: str) -> Any:
    """Return a module that reads `what`. Raises ConfigError if its package is not installed. `path` is the file that needs it."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        advice = f"is {what}, which needs the package {package}: pip install 'streammetrics[files]'"
        raise ConfigError([Problem("FILE", path, advice)]) from None
