"""Everything that uses private names of kafka-python: one file a patch."""
