"""Dashboards for Grafana as code. `python -m grafana.generate` writes them; nothing of the product imports this."""
