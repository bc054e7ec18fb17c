"""Write the dashboards: `python -m grafana.generate`. With --check it writes nothing and fails if a file is not current."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.experiment import experiment
from grafana.pipeline import pipeline
from grafana.ranking import ranking

FOLDER = Path(__file__).parent / "dashboards"


def dashboards() -> Iterator[tuple[Path, str]]:
    """Yield every file with its content. The content is the same on every run."""
    for made in (experiment(), ranking(), pipeline()):
        assert made.uid is not None
        text = json.dumps(made, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
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
