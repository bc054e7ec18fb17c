"""Rankings with judgments from dicts, arrays and data frames, as `JudgedLists`, and their metrics. No metric formulas here."""
