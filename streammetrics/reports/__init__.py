"""Reports: committed state of all tasks -> one immutable Report, and the history of verdicts.

A report merges the state of all tasks exactly and shows each number only as far as every task has come. This room is pure: it reads
no store and does not know who owns a task. How a report is shown is decided in `exporters` and `cli`.
"""
