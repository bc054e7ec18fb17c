"""Builds the parts of a process from Settings: engine, decoders, report builder, rules, connections, servers and logs.

No other module converts settings to parts. Clients, and the packages of encodings, are imported inside the functions that need them.
So a command without Kafka or Redis does not load their clients.
"""
