"""`report --panes`: writes the final panes of the state in Redis to a file, merged over all tasks. Changes no state."""

from __future__ import annotations

from pathlib import Path

from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.connectors.parquet.table import ParquetTable
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.pane_lines import pane_lines
from streammetrics.reports.pane_rows import PANE_COLUMNS, pane_rows
from streammetrics.reports.report import Report


def write_stored_panes(path: Path, builder: ReportBuilder, report: Report) -> None:
    """Write all final panes that every task still has: as Parquet if the file is named .parquet, else as NDJSON."""
    pane_ms, layout = builder.rules.pane_ms, builder.layout
    with AtomicFile("--panes", path) as file:
        if path.suffix != ".parquet":
            for start_ms, pane in builder.final_panes(report, 0):
                file.writelines(pane_lines(start_ms, pane, final=True, live=False, pane_ms=pane_ms, layout=layout))
            return
        with ParquetTable(file, PANE_COLUMNS, "--panes") as table:
            for start_ms, pane in builder.final_panes(report, 0):
                for row in pane_rows(start_ms, pane, final=True, live=False, pane_ms=pane_ms, layout=layout):
                    table.add(row)
