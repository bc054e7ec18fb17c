"""The forms of event files: compressed or not, in several encodings, as lines, JSON arrays, CSV, TSV, Parquet or Avro.

The content of a file decides how it is read, not its name. Each form yields records as JSON bytes, which a decoder of `events` reads later.
"""
