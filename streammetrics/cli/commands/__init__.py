"""The commands as people type them: one module per command, with its options, help and examples. It holds no other logic.

What a command does is imported when it runs, so that help and usage errors appear at once.
"""
