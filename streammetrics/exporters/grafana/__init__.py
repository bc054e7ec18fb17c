"""The Grafana dashboards, as files. `grafana/generate.py` in the sources writes them. Pure."""
