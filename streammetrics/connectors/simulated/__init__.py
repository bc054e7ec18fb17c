"""Simulated traffic from a seed, for demonstrations, benchmarks and tests.

The generator is pure: no clock, no I/O, no global state. The same `Traffic` gives the same bytes in every process. All
randomness comes from `random.Random.random()`, because Python guarantees its sequence. Each list of a visit has its own
seed, so that changing one parameter changes only what that parameter describes. `source` makes a `Source` of it.
"""

from streammetrics.connectors.simulated.people import variant_of
from streammetrics.connectors.simulated.traffic import Ramp, Regression, Segment, Traffic, Variant
from streammetrics.connectors.simulated.transport import SimulatedRecord, generate

__all__ = ["Ramp", "Regression", "Segment", "SimulatedRecord", "Traffic", "Variant", "generate", "variant_of"]
