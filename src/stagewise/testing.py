"""A conformance kit for policies: does one of your own keep the contract?

    from stagewise.testing import assert_conforms
    assert_conforms(my_package.my_policy)

The rules are those of `stagewise.policy.Policy`, tried on small scenarios of many kinds: ordinary and
fluctuating rounds, nobody online, everybody online, one client, edges without capacity, clients
without links.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stagewise.errors import one_line
from stagewise.policy import PolicyFactory, contract_violation
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Links, Scenario

_ROUNDS = 3


def conformance_problems(factory: PolicyFactory, *, seeds: int = 2) -> list[str]:
    """What `factory`'s policies get wrong, a line each; empty if they keep the contract."""
    problems = []
    for seed in range(seeds):
        for name, scenario, rounds in _cases(seed):
            problems += [
                f"{name}, seed {seed}: {line}" for line in _try(factory, scenario, rounds, seed)
            ]
    return problems


def assert_conforms(factory: PolicyFactory, *, seeds: int = 2) -> None:
    """Raise an AssertionError that lists everything `factory`'s policies get wrong."""
    problems = conformance_problems(factory, seeds=seeds)
    if problems:
        raise AssertionError("\n".join(["the policy does not keep the contract:", *problems]))


def _try(
    factory: PolicyFactory, scenario: Scenario, rounds: list[Round], seed: int
) -> Iterator[str]:
    try:
        policy = factory(scenario, seed=seed, seconds=1.0)
        again = factory(scenario, seed=seed, seconds=1.0)
    except Exception as error:
        yield f"making the policy raised {one_line(repr(error))}"
        return
    for index, round_ in enumerate(rounds):
        before = _fingerprint(round_)
        try:
            answer = policy.decide(round_, index)
            repeated = again.decide(round_, index)
        except Exception as error:
            yield f"round {index}: decide raised {one_line(repr(error))}"
            return
        broken = contract_violation(round_, answer)
        if broken is not None:
            yield f"round {index}: {broken}"
            continue
        if not np.array_equal(answer, repeated):
            yield f"round {index}: two policies with one seed must give one answer, but do not"
        if _fingerprint(round_) != before:
            yield f"round {index}: decide must not change the round or the scenario, but did"


def _fingerprint(round_: Round) -> tuple[bytes, ...]:
    scenario = round_.scenario
    arrays = (
        round_.online,
        round_.costs.delay_s,
        round_.costs.energy_j,
        scenario.links.gain,
        scenario.clients.label_counts,
        scenario.clients.online_probability,
        scenario.edges.capacity,
    )
    return tuple(array.tobytes() for array in arrays)


def _cases(seed: int) -> Iterator[tuple[str, Scenario, list[Round]]]:
    usual = numeric(clients=30, edges=3, seed=seed)
    rounds = bernoulli(usual, _ROUNDS, seed)
    yield "ordinary rounds", usual, rounds
    yield "fluctuating rounds", usual, fluctuate(rounds, seed)
    yield "nobody online", usual, [Round(usual, np.zeros(30, dtype=np.bool_))]
    yield "everybody online", usual, [Round(usual, np.ones(30, dtype=np.bool_))]
    single = numeric(clients=1, edges=1, seed=seed)
    yield "one client, one edge", single, [Round(single, np.ones(1, dtype=np.bool_))]
    full = replace(
        usual, edges=replace(usual.edges, capacity=np.array([0, 1, 2])), file_sha256=None
    )
    yield "edges with next to no capacity", full, bernoulli(full, _ROUNDS, seed)
    sparse = replace(usual, links=_without_some(usual.links), file_sha256=None)
    yield "clients without links", sparse, bernoulli(sparse, _ROUNDS, seed)


def _without_some(links: Links) -> Links:
    """The links of every second client."""
    kept = links.client % 2 == 0
    start = np.concatenate([[0], np.cumsum(kept)])[links.start]
    return Links(start=start, edge=links.edge[kept], gain=links.gain[kept])
