"""What commands print and write: tables, progress, pages and files."""
