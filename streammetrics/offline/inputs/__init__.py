"""Readers that turn runs, judgments, files, data frames and arrays into `Judged` lists. No metric formulas here."""
