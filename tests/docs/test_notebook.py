"""The notebook of the docs runs, and its stored text is what it prints now."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.paths import ROOT

TOUR = ROOT / "streammetrics" / "offline" / "notebook" / "tour.ipynb"


def texts(notebook: Any) -> list[list[str]]:
    """The text that each code cell prints or shows."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [["".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in cell.outputs] for cell in code]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs_and_shows_what_it_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stored = nbformat.read(TOUR, 4)
    run = deepcopy(stored)
    NotebookClient(run, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert texts(run) == texts(stored)


def test_the_notebook_holds_no_trace_of_a_machine() -> None:
    assert "/tmp" not in TOUR.read_text()
    assert "/root" not in TOUR.read_text()
