"""How long `import streammetrics` takes, and what it pulls in: in fresh interpreters, less an interpreter that imports nothing."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

LOADED = """
import json, sys
known = set(sys.modules)
import streammetrics
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - known})))
"""


def measure(rounds: int) -> tuple[float, float, list[str]]:
    """Wall seconds of the import and of numpy's alone (medians of interleaved runs), and what is not of the standard library."""
    taken: dict[str, list[float]] = {"pass": [], "import numpy": [], "import streammetrics": []}
    for _ in range(rounds):
        for program, seconds in taken.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            seconds.append(time.perf_counter() - began)
    nothing, numpy, ours = (statistics.median(seconds) for seconds in taken.values())
    output = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout
    third_party = [name for name in json.loads(output) if name not in sys.stdlib_module_names and not name.startswith("_")]
    return ours - nothing, numpy - nothing, third_party
