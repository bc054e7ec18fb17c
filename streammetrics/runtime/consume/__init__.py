"""What consumes: reads records, runs tasks, and commits what they come to.

`consumer` is the loop of a worker, `task_runner` runs one task at a time, and the other modules are what these two keep or ask.
"""
