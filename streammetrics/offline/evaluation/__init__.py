"""Evaluation and comparison of whole runs: means, standard errors, tests, text output. No metric formulas here."""
