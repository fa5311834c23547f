"""A conformance kit for policies: does one of your own keep the contract?

    from stagewise.testing import assert_conforms
    assert_conforms(my_package.my_policy)

The rules are those of `stagewise.policy.Policy`, tried on small scenarios of many kinds: ordinary and
fluctuating rounds, nobody online, everybody online, one client, edges without capacity, clients
without links.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from stagewise.errors import one_line
from stagewise.policy import PolicyFactory, WithBound, contract_violation
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
        # No time limit: what a search finds within one is not the same twice.
        policy = factory(scenario, seed=seed, seconds=None)
        again = factory(scenario, seed=seed, seconds=None)
    except Exception as error:
        yield f"making the policy raised {one_line(repr(error))}"
        return
    for index, round_ in enumerate(rounds):
        before = _fingerprint(round_)
        try:
            answer = _edge_of(policy.decide(round_, index))
            unchanged = _fingerprint(round_) == before
            repeated = _edge_of(again.decide(round_, index)) if unchanged else answer
        except Exception as error:
            yield f"round {index}: decide raised {one_line(repr(error))}"
            return
        if not unchanged:
            yield f"round {index}: decide must not change the round or the scenario, but did"
            return
        broken = contract_violation(round_, answer)
        if broken is not None:
            yield f"round {index}: {broken}"
            continue
        if not np.array_equal(answer, repeated):
            yield f"round {index}: two policies with one seed must give one answer, but do not"


def _edge_of(answer: Any) -> Any:
    return answer.edge_of if isinstance(answer, WithBound) else answer


def _fingerprint(round_: Round) -> tuple[bytes, ...]:
    """The bytes of every array that the round and its scenario are made of."""
    scenario = round_.scenario
    parts = (round_, round_.costs, scenario, scenario.clients, scenario.edges, scenario.links)
    values = (getattr(part, field.name) for part in parts for field in fields(part))
    arrays = (value for value in values if isinstance(value, np.ndarray))
    return tuple(array.tobytes() for array in (*arrays, scenario.clients.data))


def _cases(seed: int) -> Iterator[tuple[str, Scenario, list[Round]]]:
    def usual() -> Scenario:
        """Made anew for each case, since a policy may have changed the last one's arrays."""
        return numeric(clients=30, edges=3, seed=seed)

    scenario = usual()
    yield "ordinary rounds", scenario, bernoulli(scenario, _ROUNDS, seed)
    scenario = usual()
    yield "fluctuating rounds", scenario, fluctuate(bernoulli(scenario, _ROUNDS, seed), seed)
    scenario = usual()
    yield "nobody online", scenario, [Round(scenario, np.zeros(30, dtype=np.bool_))]
    scenario = usual()
    yield "everybody online", scenario, [Round(scenario, np.ones(30, dtype=np.bool_))]
    single = numeric(clients=1, edges=1, seed=seed)
    yield "one client, one edge", single, [Round(single, np.ones(1, dtype=np.bool_))]
    scenario = usual()
    edges = replace(scenario.edges, capacity=np.array([0, 1, 2]))
    full = replace(scenario, edges=edges, file_sha256=None)
    yield "edges with next to no capacity", full, bernoulli(full, _ROUNDS, seed)
    scenario = usual()
    sparse = replace(scenario, links=_without_some(scenario.links), file_sha256=None)
    yield "clients without links", sparse, bernoulli(sparse, _ROUNDS, seed)


def _without_some(links: Links) -> Links:
    """The links of every second client."""
    kept = links.client % 2 == 0
    start = np.concatenate([[0], np.cumsum(kept)])[links.start]
    return Links(start=start, edge=links.edge[kept], gain=links.gain[kept])
