"""What works on history: rankings evaluated from dicts, arrays and frames, replays of events, Spark, and notebooks.

`evaluation` reads rankings with judgments and scores them. `replay` and `spark` read events, and `notebook` shows reports as tables.
"""
