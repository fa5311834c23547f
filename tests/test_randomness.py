"""Generators of (seed, purpose, round): the same arguments, the same stream, and no other's."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from stagewise.randomness import generator, integer_seed


def test_the_same_arguments_give_the_same_stream():
    first = generator(3, "gain", 4).random(50)
    generator(3, "gain", 5).random(7)
    np.testing.assert_array_equal(generator(3, "gain", 4).random(50), first)
    assert integer_seed(3, "gain", 4) == integer_seed(3, "gain", 4)


def test_every_argument_matters():
    streams = [
        tuple(generator(seed, purpose, round_).random(8))
        for seed, purpose, round_ in itertools.product(
            (0, 1, 2**40), ("gain", "cpu", ""), (0, 1, 10_000)
        )
    ]
    assert len(set(streams)) == len(streams)


def test_streams_of_neighbouring_rounds_are_unrelated():
    draws = np.array([generator(0, "rounds", g).random(2000) for g in range(8)])
    correlation = np.corrcoef(draws) - np.eye(8)
    assert np.abs(correlation).max() < 0.1
    assert np.abs(draws.mean(axis=1) - 0.5).max() < 0.03


def test_integer_seeds_fit_compiled_loops():
    seeds = [integer_seed(seed, "P0", g) for seed in range(20) for g in range(20)]
    assert all(isinstance(seed, int) and 0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) == len(seeds)


def test_nothing_depends_on_the_global_state_or_the_process():
    """A purpose's hash must not be Python's own, which differs from process to process."""
    np.random.seed(1)  # noqa: NPY002 - the legacy global state must not matter
    here = generator(7, "zobrist", 2).integers(2**63)
    program = (
        "from stagewise.randomness import *; print(generator(7, 'zobrist', 2).integers(2**63))"
    )
    there = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "123", "PATH": ""},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert int(there) == here


def test_the_key_is_the_purposes_crc_and_the_round():
    """Streams are part of what a seed means: another key breaks everybody's reproductions."""
    sequence = np.random.SeedSequence(entropy=5, spawn_key=(0xDDBB7F07, 3))  # CRC-32 of "P0"
    expected = np.random.default_rng(sequence).random(5)
    np.testing.assert_array_equal(generator(5, "P0", 3).random(5), expected)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="non-negative"):
        generator(-1, "gain")
