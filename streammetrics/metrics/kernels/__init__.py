"""The ways to score lists: one by one, many by their hits, many by their bits. The integers are the same; `choice` says which is taken."""
