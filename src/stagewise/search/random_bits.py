"""A small generator for compiled loops: xorshift64*, its state a one-element array."""

import numpy as np

from stagewise.compiled import inlined

_FACTOR, _SUMMAND = 0x9E3779B97F4A7C15, 0x2545F4914F6CDD1D


def bits_from(seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The generator's state for `seed`; never zero, where xorshift would stand still."""
    return np.array([(seed * _FACTOR + _SUMMAND) % 2**64 | 1], dtype=np.uint64)


@inlined
def seed_bits(bits, seed):
    """Set the state to that for `seed`, a whole number that is not negative."""
    bits[0] = np.uint64(seed) * np.uint64(_FACTOR) + np.uint64(_SUMMAND) | np.uint64(1)


@inlined
def next_word(bits):
    x = bits[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    bits[0] = x
    return x * np.uint64(_SUMMAND)


@inlined
def uniform(bits):
    """A number in [0, 1)."""
    return np.float64(next_word(bits) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def below(bits, limit):
    """A whole number in [0, limit)."""
    return np.int64(uniform(bits) * limit)
