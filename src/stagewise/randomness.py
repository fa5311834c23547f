"""Random generators seeded by (seed, purpose, round), so that no draw depends on another's history."""

import zlib
from functools import lru_cache

import numpy as np


def generator(seed: int, purpose: str, round_index: int = 0) -> np.random.Generator:
    """The generator of one purpose in one round: the same arguments always give the same stream."""
    key = (zlib.crc32(purpose.encode()), round_index)
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=key))


@lru_cache(maxsize=1024)  # a search begins with the same few in every round
def integer_seed(seed: int, purpose: str, round_index: int = 0) -> int:
    """A seed below 2**31 for compiled loops that keep their own generator."""
    return int(generator(seed, purpose, round_index).integers(2**31))
