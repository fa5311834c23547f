"""Channels and CPUs that change from round to round (Extended Evaluations I)."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.world.checks import interval, seed_number
from stagewise.world.rounds import Round


def fluctuate(
    rounds: Iterable[Round],
    seed: int = 0,
    gain_range: tuple[float, float] = (1e-9, 1e-8),
    cpu_range: tuple[float, float] = (1e9, 10e9),
) -> list[Round]:
    """The same rounds with every channel gain and CPU frequency (Hz) drawn again in each.

    Draws are uniform in their range, from a generator of the seed and the round's place in the
    list. Links whose costs were measured keep them, and so do clients without a CPU frequency.

    Parameters
    ----------
    rounds
        What to change; their indices stay.
    seed
        Of the draws.
    gain_range, cpu_range
        Pairs (from, to).

    Raises
    ------
    StagewiseError
        If a range or the seed cannot be, or no link of a round has a channel gain.

    Examples
    --------
    >>> from stagewise.world.generate import numeric
    >>> from stagewise.world.participation import bernoulli
    >>> (round_,) = fluctuate(bernoulli(numeric(clients=2, edges=1), 1), cpu_range=(2e9, 2e9))
    >>> round_.cpu_hz
    array([2.e+09, 2.e+09])
    """
    seed_number(seed)
    interval("gain_range", gain_range, 0, open_below=True)
    interval("cpu_range", cpu_range, 0, open_below=True)
    changed = []
    for g, round_ in enumerate(rounds):
        clients, links = round_.scenario.clients, round_.scenario.links
        if links.measured.all():
            raise StagewiseError("links: there must be a channel gain, for gains to fluctuate")
        cpu_hz = generator(seed, "fluctuation of cpu_hz", g).uniform(*cpu_range, len(clients))
        gain = generator(seed, "fluctuation of gain", g).uniform(*gain_range, len(links))
        cpu_hz[np.isnan(clients.cpu_hz)] = np.nan
        gain[links.measured] = np.nan
        changed.append(replace(round_, cpu_hz=cpu_hz, gain=gain))
    return changed
