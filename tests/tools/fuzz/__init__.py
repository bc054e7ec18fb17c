"""Damaged records and files of every form, through the whole worker: nothing raises, and all counts add up."""
