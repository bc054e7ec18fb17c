"""Renders a report and the status of a process as text for Prometheus. No other room imports the client library."""
