"""Standard output: it must be open, and JSON on it is UTF-8 whatever its encoding."""

from __future__ import annotations

import sys
from typing import TextIO

from streammetrics.errors import StreammetricsError
from streammetrics.reports.published import json_lines


def standard_output() -> TextIO:
    """Return standard output. Raises StreammetricsError if it is closed."""
    if sys.stdout is None:
        raise StreammetricsError("standard output is closed; connect it to a terminal, a file or a pipe")
    return sys.stdout


def print_json(value: object) -> None:
    """Print a value as indented JSON. Raises StreammetricsError if standard output is closed."""
    output = standard_output().buffer
    output.write(json_lines(value))
    output.flush()
