"""Statistics: exact moments, boundaries that are valid at each look, estimates and plans. Numbers in, numbers out. Pure."""
