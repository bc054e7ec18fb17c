"""The address of the runbook pages where no exporter serves them."""

from __future__ import annotations

from typing import Final

RUNBOOKS: Final = "https://github.com/streammetrics/streammetrics/blob/main/deploy/runbooks/"
"""The part of a runbook's address before its file name."""
