"""Shows a report to people and programs: series for Prometheus, JSON, and a live page, all on one HTTP port."""
