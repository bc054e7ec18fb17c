"""Seeded traffic, for demonstrations, benchmarks and tests.

Law: a pure generator. No clock, no I/O, no global state; the same `Traffic` gives the same bytes in every process. All
chance therefore comes from `random.Random.random()`, the one draw whose sequence Python keeps for good, and every visit of
a user draws from seeds of its own: a knob moves what it names, and all else stays as it was.
"""

from streammetrics.connectors.simulated.people import variant_of
from streammetrics.connectors.simulated.traffic import Regression, Segment, Traffic, Variant
from streammetrics.connectors.simulated.transport import SimulatedRecord, generate

__all__ = ["Regression", "Segment", "SimulatedRecord", "Traffic", "Variant", "generate", "variant_of"]
