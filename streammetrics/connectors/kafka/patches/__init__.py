"""Fixes for kafka-python. Only the files in this folder use its private names (those that begin with an underscore).

Each file fixes one thing and has one test file of the same name. Its docstring says what the client does, what happens without the
fix, which private names it uses, and when it can be deleted. Each test file has a class `TestStillNeeded`, which shows the fault in the
unpatched client. If that class fails after an upgrade of kafka-python, delete the patch.

Where a private name has changed, a patch changes nothing and logs a warning that names the effect.
"""
