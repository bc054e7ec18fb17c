"""The forms of event files: lines of JSON, a JSON array, CSV, TSV and Parquet. All but Parquet may be compressed with gzip or zstd.

The content of a file decides how it is read, not its name. Each form yields records as JSON bytes, which a decoder of `events` reads later.
"""
