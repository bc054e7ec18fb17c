"""The command line.

`main` parses the options. Each command has a module of its name, with its helper modules beside it. `output` prints and writes
results; `process` handles signals and threads.
"""
