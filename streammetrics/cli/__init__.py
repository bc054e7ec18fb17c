"""The command line.

`main` parses the options. Each command has a module of its name, with its helper modules beside it. `wiring` builds the parts of a
command from Settings. `output` prints and writes results; `process` handles signals, threads, logs and garbage collection.
"""
