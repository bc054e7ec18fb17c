"""Enrolment: final lists -> users' totals in experiments -> the sums over the users of each run and of each day.

This room is pure: it does no I/O and knows no clock. It does not decide when a list is final.
"""
