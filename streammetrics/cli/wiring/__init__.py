"""Builds the parts of a command from Settings: engine, decoders, report builder, rules, connections and servers.

No other module converts settings to parts. Clients, and the packages of encodings, are imported inside the functions that need them.
So a command without Kafka or Redis does not load their clients.
"""
