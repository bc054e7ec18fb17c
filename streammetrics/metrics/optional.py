"""Loads libraries that only some functions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streammetrics.metrics.names import MetricError


def optional(module: str, subject: str) -> Any:
    """Import a module. Raises MetricError about `subject`, with what to install, if its library is not there.

    >>> optional("math", "root").sqrt(4.0)
    2.0
    """
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise MetricError(subject, f"got no {name}; allowed is an environment with it: pip install {name}") from None
