"""Print the reference configuration file: `python -m streammetrics.config > deploy/streammetrics.toml`."""

from __future__ import annotations

import sys

from streammetrics.config.reference import reference_toml

if __name__ == "__main__":
    sys.stdout.write(reference_toml(whole=True))
