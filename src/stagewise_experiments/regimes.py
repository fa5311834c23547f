"""What costs are like where the paper leaves it open: two regimes (docs/calibration.md)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Regime:
    """The choices behind a scenario's costs."""

    sample_bits: float
    """Bits of a sample that count, as a share of a byte for each of its values."""
    weight: float
    """The sum of the weights of a second and a joule."""
    radius_m: float
    uplink_energy_j: float


REGIMES = {
    "literal": Regime(sample_bits=1.0, weight=1.0, radius_m=300.0, uplink_energy_j=0.1),
    # benchmarks/calibration.py: a cycle count for a value in place of a bit.
    "calibrated": Regime(sample_bits=1 / 8, weight=0.346, radius_m=150.0, uplink_energy_j=0.03),
}
