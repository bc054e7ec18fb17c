"""One task: takes batches of events, returns what to commit, and is restored from what was committed.

`engine.Engine` is the entry. The loop admits events and joins them. Sessions hand on what becomes final, and `task_state` lets the
other rooms take it. The engine has no clock, no I/O and no log.
"""
