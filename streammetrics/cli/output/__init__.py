"""Terminal output and files of commands: tables, progress bars, HTML pages and atomic files."""
