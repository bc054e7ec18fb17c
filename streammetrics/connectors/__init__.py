"""Where data enters and leaves: records in from Kafka, files or a simulation; state out to Redis or memory, and back.

`source`, `store`, `dead_letters` and `clock` have the protocols. Each other module or folder implements some of them and is the only
place that imports its client.
"""
