"""What works on history: rankings evaluated from files and frames, replays of events, Spark, notebooks, and what differs between reports.

`inputs` reads runs, judgments and frames. `evaluation` scores and compares them. `replay` and `spark` read events, `notebook` shows
reports as tables, and `differences` says why two reports differ.
"""
