"""What differs between two reports of the same events, and why: an online one and an offline one, each with its panes if it has them.

Pure. `comparison` puts the parts together. Nothing here recomputes a metric: integers and values are taken as they are written.
"""
