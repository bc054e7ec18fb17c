"""Enrolment: final lists -> users' totals in experiments -> the sums over the users of each run, of each day and of each stage.

A user belongs to the variant of the first enrolled list. This room is pure: it does no I/O and knows no clock. It does not decide when a
list is final.
"""
