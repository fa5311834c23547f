"""What costs are like where the paper leaves it open: two regimes (docs/calibration.md)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Regime:
    """The choices behind a scenario's costs."""

    sample_bits: float
    """Bits of a sample that count, as a share of a byte for each of its values."""
    delay_weight: float
    """Of a second where both weigh the same; `energy_weight` is that of a joule."""
    energy_weight: float
    radius_m: float
    uplink_energy_j: float


REGIMES = {
    "literal": Regime(
        sample_bits=1.0,
        delay_weight=0.5,
        energy_weight=0.5,
        radius_m=300.0,
        uplink_energy_j=0.1,
    ),
    # benchmarks/calibration.py: two bits of a pixel count.
    "calibrated": Regime(
        sample_bits=0.25,
        delay_weight=0.385,
        energy_weight=0.115,
        radius_m=200.0,
        uplink_energy_j=0.01,
    ),
}
