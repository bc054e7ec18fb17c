"""User sessions."""
