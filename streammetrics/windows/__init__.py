"""Windows: graded lists -> tallies per pane and group -> windows; and the distinct users of windows.

A tally is a row of integers that merges by addition. A pane has one tally per group, and a window is a sum of panes. This room is
pure: it does no I/O and knows no clock. It does not decide when a pane is final; the engine does.
"""
