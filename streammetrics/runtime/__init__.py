"""The loops of a process.

`consume` polls records, runs the engine, and commits. `publish` reads committed state and passes on reports, results and changes. Neither
imports the other. Both know the protocols of `connectors`, and none of the modules that implement them.
"""
