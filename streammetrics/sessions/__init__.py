"""Sessions: one user's events -> lists with graded items.

A session is a run of one user's events with no gap longer than `gap_ms`. Inside a session, feedback is joined to the list that it
belongs to. Late copies, fragments and events between two sessions give the same result as events in order. This room knows no
clock and no store. Of metrics it knows only the unit in which the value of a purchase is counted.
"""
