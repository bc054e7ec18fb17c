"""What a notebook uses beside the metric library: replays and reports as tables. Imports nothing."""
