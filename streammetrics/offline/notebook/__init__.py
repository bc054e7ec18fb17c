"""What a notebook uses beside the metric library: replays and reports as tables, and plots. Imports nothing."""
