"""What the paper leaves open about costs and training: two regimes (docs/calibration.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Regime:
    """The choices behind a scenario's costs, and behind how fast a model learns."""

    batch_fraction: float
    """Of a client's data in a step. Costs depend on it times the bits of a sample, a byte for each
    of its values."""
    delay_weight: float
    """Of a second where both weigh the same; `energy_weight` is that of a joule."""
    energy_weight: float
    radius_m: float
    uplink_energy_j: float
    learning_rates: Mapping[str, float] = field(default_factory=dict)
    """By data set; those of the library (docs/training.md) for all others."""


REGIMES = {
    "literal": Regime(
        batch_fraction=0.1,
        delay_weight=0.5,
        energy_weight=0.5,
        radius_m=300.0,
        uplink_energy_j=0.1,
    ),
    # benchmarks/calibration.py
    "calibrated": Regime(
        batch_fraction=0.025,
        delay_weight=0.385,
        energy_weight=0.115,
        radius_m=200.0,
        uplink_energy_j=0.01,
        learning_rates={"mnist": 0.035},
    ),
}
