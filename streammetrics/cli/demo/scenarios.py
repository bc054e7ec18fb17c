"""What the simulated A/B test of `demo` can show: the variants of its traffic, and the settings that belong to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from streammetrics.connectors.simulated import Ramp, Variant

EXPERIMENT: Final = "ranker"
CONTROL: Final = "control"


class Scenario(NamedTuple):
    """A simulated A/B test: its variants with the control first, and defaults that only this scenario needs.

    `ramp`: the second step of a rollout. Its time is that of the demo, not of the simulated visits.
    """

    variants: tuple[Variant, ...]
    defaults: Mapping[str, object] = MappingProxyType({})
    ramp: Ramp | None = None

    @property
    def treatment(self) -> str:
        """The variant that the terminal compares with the control: the one with the worst ranker."""
        return min(self.variants[1:], key=lambda variant: variant.quality).name


def _pair(quality: float, share: float = 0.5, control_share: float = 0.5) -> tuple[Variant, ...]:
    return Variant(CONTROL, control_share), Variant("treatment", share, quality)


_EQUAL_SPLIT = MappingProxyType({"experiments.named": {EXPERIMENT: {"shares": {CONTROL: 0.5, "treatment": 0.5}}}})

SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "regressed": Scenario(_pair(0.7)),
        "improved": Scenario(_pair(1.4)),
        "flat": Scenario(_pair(1.0)),
        "broken-split": Scenario(_pair(1.0, share=0.4), _EQUAL_SPLIT),
        "ramp": Scenario(_pair(0.6, share=0.1, control_share=0.9), ramp=Ramp(0.5, after_ms=120_000)),
        "six-variants": Scenario(
            (
                Variant(CONTROL, 0.25),
                Variant("popularity", 0.15, 0.45),
                Variant("item-knn", 0.15, 0.65),
                Variant("gru4rec", 0.15, 0.75),
                Variant("sasrec", 0.15, 1.0),
                Variant("two-tower", 0.15, 1.8),
            )
        ),
    }
)
"""All scenarios by name. In `broken-split` the split is configured as equal, but the treatment gets fewer users. In `ramp` a bad ranker
has 10 % of the users for two minutes, and then half of them."""

DEFAULT_SCENARIO: Final = "regressed"
