"""Panes and windows."""
