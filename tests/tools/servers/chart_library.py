"""Copies the chart library of the page from npm into the package: uPlot with its style sheet and its licence.

    python -m tests.tools.servers.chart_library

The copies are committed, so that an installation from a clone needs neither npm nor a network. A test compares them with the package.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.tools.servers.npm import fetched

PACKAGE = "uplot@1.6.32"
STATIC = ROOT / "streammetrics" / "exporters" / "http" / "static"
FILES = {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css", "LICENSE": "uplot.LICENSE"}
"""The files of the package, and their names here."""


def originals() -> dict[Path, Path]:
    """Return the file of the package for each copy."""
    package = fetched("chart-library", PACKAGE) / "uplot"
    return {STATIC / copy: package / original for original, copy in FILES.items()}


def main() -> int:
    for copy, original in originals().items():
        shutil.copyfile(original, copy)
        print(copy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
