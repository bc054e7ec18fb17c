"""Worker process for one library: reads JSON questions from standard input, one per line, and writes JSON answers.

    python -m tests.metrics.golden.worker LIBRARY < questions > answers

Runs in the golden environment, where streammetrics is not installed, so its arithmetic cannot influence a value.
In: {"lists": [[item ids in rank order], {item id: grade}, [scores]], "cutoffs": [k, ...]}. Out: {measure: [value of each list]}. A value
is a number, NaN, or the name of the exception.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings

from tests.metrics.golden.libraries.asking import JudgedList


def main() -> None:
    library = importlib.import_module(f"tests.metrics.golden.libraries.{sys.argv[1]}")
    answers = sys.stdout
    sys.stdout = sys.stderr  # libraries that print must not write into the answers
    for line in sys.stdin:
        question = json.loads(line)
        values = library.measure([JudgedList(*judged) for judged in question["lists"]], question["cutoffs"])
        print(json.dumps(values), file=answers, flush=True)


if __name__ == "__main__":
    if sys.platform == "linux":
        sys.setdlopenflags(os.RTLD_LAZY)  # see environment.UNCALLED
    warnings.simplefilter("ignore")
    main()
