"""The loops of a process.

The worker (`consumer`, `task_runner`) polls records, runs the engine, and commits. `owned_task` holds what it keeps for
each task: assignment, backlog, dead letters, commits, input activity and retries. The `publisher` reads committed state
and publishes reports. This room knows the protocols of `connectors`, and none of the modules that implement them.
"""
