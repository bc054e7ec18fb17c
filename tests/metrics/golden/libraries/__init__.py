"""One module per library that computes its metrics. Only the worker in the golden environment imports them."""
