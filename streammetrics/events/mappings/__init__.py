"""Mappings: the events of other systems -> impressions and feedback, by configuration and without code.

A mapping says which records it applies to and where they have each field. `rules` reads mappings and reports all their problems,
`compiled` turns them into functions, `decoder` is the decoder of a topic, and `presets` has the mappings that ship with the package.
"""
