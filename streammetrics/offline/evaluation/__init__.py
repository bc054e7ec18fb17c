"""Rankings with judgments from dicts, arrays and data frames, as `Judged` lists; and their metrics. No metric formulas here."""
