"""Advice to people: what records of an unknown form seem to be, mappings for them, and the JSON Schema of native events.

No event depends on it. Decoders ask it only for the text of an error.
"""
