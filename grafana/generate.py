"""Writes the dashboards: `python -m grafana.generate`. With --check it writes nothing, and fails when a file is not as it should be."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from grafana.experiment import experiment
from grafana.pipeline import pipeline
from grafana.ranking import ranking
from grafana.sdk import JSONEncoder

FOLDER = Path(__file__).parent / "dashboards"


def dashboards() -> Iterator[tuple[Path, str]]:
    """Every file with what must be in it. The same on every run."""
    for made in (experiment(), ranking(), pipeline()):
        assert made.uid is not None
        text = json.dumps(made, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        yield FOLDER / f"{made.uid.removeprefix('streammetrics-')}.json", text


def main(words: list[str]) -> int:
    """Write, or check."""
    wanted = dict(dashboards())
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += sorted({*FOLDER.glob("*.json")} - wanted.keys())
    if words == ["--check"]:
        for path in stale:
            print(f"{path.name} is not what the generator writes; write anew with: python -m grafana.generate", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(wanted)} dashboards, {len(stale)} of them changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
