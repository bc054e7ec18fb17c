"""Write the dashboards into the package: `python -m grafana.generate`.

With --check it writes nothing and fails if a file is not current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.experiment import experiment
from grafana.pipeline import pipeline
from grafana.ranking import ranking
from streammetrics.exporters.grafana.dashboards import as_text

FOLDER = Path(__file__).parents[1] / "streammetrics" / "exporters" / "grafana"


def dashboards() -> Iterator[tuple[Path, str]]:
    """Yield every file with its content. The content is the same on every run."""
    for made in (experiment(), ranking(), pipeline()):
        assert made.uid is not None
        text = as_text(json.loads(json.dumps(made, cls=JSONEncoder)))
        yield FOLDER / f"{made.uid.removeprefix('streammetrics-')}.json", text


def main(arguments: list[str]) -> int:
    """Write the files, or check them."""
    generated = dict(dashboards())
    stale = [path for path, text in generated.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += sorted({*FOLDER.glob("*.json")} - generated.keys())
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.name} is not current; write it with: python -m grafana.generate", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        if path in generated:
            path.write_text(generated[path], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(generated)} dashboards, {len(stale)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
