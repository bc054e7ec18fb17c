"""Writes tables as Parquet files, for warehouses: one file, or a folder of files that several processes may write."""
