"""The command line.

`main` lists the commands. Each has a module of its name in `commands`; what is too large for it lies beside. `output` prints and
writes results.
"""
