"""One task: takes batches of events, returns what to commit, and is restored from what was committed.

`engine.Engine` is the entry. A task's state has five owners: input progress, sessions, panes, enrolments and unique users. `task_state`
puts them together. Enrolment adds final lists to users' totals in experiments. The engine has no clock, no I/O and no log.
"""
