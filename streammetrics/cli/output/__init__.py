"""Terminal output of commands: tables, progress bars and lines of text."""
