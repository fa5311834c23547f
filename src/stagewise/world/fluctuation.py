"""Channels and CPUs that change from round to round (Extended Evaluations I)."""

from collections.abc import Iterable
from dataclasses import replace

from stagewise.randomness import generator
from stagewise.world.checks import interval, seed_number
from stagewise.world.rounds import Round


def fluctuate(
    rounds: Iterable[Round],
    seed: int = 0,
    gain_range: tuple[float, float] = (1e-9, 1e-8),
    cpu_range: tuple[float, float] = (1e9, 10e9),
) -> list[Round]:
    """The same rounds with every channel gain and CPU frequency (Hz) drawn anew in each.

    Draws are uniform in their range, from a generator of the seed and the round's place in the
    list.
    """
    seed_number(seed)
    interval("gain_range", gain_range, 0, open_below=True)
    interval("cpu_range", cpu_range, 0, open_below=True)
    return [
        replace(
            round_,
            cpu_hz=generator(seed, "fluctuation of cpu_hz", g).uniform(
                *cpu_range, len(round_.scenario.clients)
            ),
            gain=generator(seed, "fluctuation of gain", g).uniform(
                *gain_range, len(round_.scenario.links)
            ),
        )
        for g, round_ in enumerate(rounds)
    ]
