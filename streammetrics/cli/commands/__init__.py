"""The commands as people type them: a module for each, with its options and help, what it does and what it prints.

`main` imports a module when its command is used. `run` and `demo` import what they do after they have begun to listen to signals.
"""
