"""A conformance kit for policies: does one of your own keep the contract?

    from stagewise.testing import assert_conforms
    assert_conforms(my_package.my_policy)

The rules are those of `stagewise.Policy`, tried on small scenarios of many kinds: ordinary and
fluctuating rounds, links and whole edges down, measured costs, nobody online, everybody online, one
client, edges without capacity, clients without links; and what is asked of any policy besides: that it
learns without changing what it observes, that it goes on from its state as if nothing had happened, that
it keeps to a time limit, and that remedies, diversity and replanning work over it or are refused in one
line.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import numpy as np

from stagewise.decisions import contract_violation, make_decision
from stagewise.errors import StagewiseError, one_line
from stagewise.outcomes import Outcome, expected_outcome
from stagewise.policies.diverse import Diverse
from stagewise.policies.policy import Policy, PolicyFactory
from stagewise.policies.registry import make_policy
from stagewise.policies.remedied import Remedied
from stagewise.policies.replanned import Replanned, Triggers
from stagewise.runs.checkpoint import state_from_arrays, state_to_arrays
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import IntArray, Links, Scenario

_ROUNDS = 3
_SECONDS = 0.05
_SLACK_S = 5.0  # a busy machine is no breach

Make = Callable[[Scenario], Policy]


def conformance_problems(factory: PolicyFactory, *, seeds: int = 2) -> list[str]:
    """What `factory`'s policies get wrong, a line each; empty if they keep the contract.

    Parameters
    ----------
    factory : function
        Of a scenario, `seed` and `seconds`; makes a policy.
    seeds : int
        How many seeds to try.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> from stagewise.testing import conformance_problems
    >>> class Everybody(stagewise.Policy):
    ...     def decide(self, round_):
    ...         return stagewise.Answer(np.zeros(len(round_.online), dtype=int))
    >>> conformance_problems(lambda scenario, *, seed, seconds: Everybody(), seeds=1)[0]
    "ordinary rounds, seed 0: round 0: client 'c0' serves but is offline"
    """
    problems = []
    for seed in range(seeds):
        # What a search finds within a time limit is not the same twice.
        def make(scenario: Scenario, seed: int = seed) -> Policy:
            return make_policy(factory, scenario, seed)

        for name, scenario, rounds in _cases(seed):
            problems += [f"{name}, seed {seed}: {line}" for line in _try(make, scenario, rounds)]
        scenario = numeric(clients=30, edges=3, seed=seed)
        rounds = bernoulli(scenario, 2 * _ROUNDS, seed)
        problems += [f"state, seed {seed}: {line}" for line in _try_state(make, scenario, rounds)]
        problems += [f"wrapped, seed {seed}: {line}" for line in _try_wrappers(make, rounds)]
        limited = _try_time_limit(factory, seed)
        problems += [f"{_SECONDS} s for a decision, seed {seed}: {line}" for line in limited]
    return problems


def assert_conforms(factory: PolicyFactory, *, seeds: int = 2) -> None:
    """Raise an AssertionError that lists everything `factory`'s policies get wrong."""
    problems = conformance_problems(factory, seeds=seeds)
    if problems:
        raise AssertionError("\n".join(["the policy does not keep the contract:", *problems]))


def _try(make: Make, scenario: Scenario, rounds: list[Round]) -> Iterator[str]:
    """The answers of one policy, and of another made the same way."""
    try:
        policy, again = make(scenario), make(scenario)
    except Exception as error:
        yield f"making the policy raised {one_line(repr(error))}"
        return
    for round_ in rounds:
        where = f"round {round_.index}"
        before = _fingerprint(round_)
        try:
            answer, repeated = policy.decide(round_), again.decide(round_)
        except Exception as error:
            yield f"{where}: decide raised {one_line(repr(error))}"
            return
        if _fingerprint(round_) != before:
            yield f"{where}: decide must not change the round or the scenario, but did"
            return
        broken = contract_violation(round_, answer)
        if broken is not None:
            yield f"{where}: {broken}"
            return
        if not np.array_equal(answer.edge_of, repeated.edge_of):
            yield f"{where}: two policies with one seed must give one answer, but do not"
        decision = make_decision(round_, answer, method=policy.title, decision_ms=0.0)
        outcome = expected_outcome(decision)
        before = _outcome_fingerprint(outcome)
        try:
            policy.observe(outcome)
            again.observe(outcome)
        except Exception as error:
            yield f"{where}: observe raised {one_line(repr(error))}"
            return
        if _outcome_fingerprint(outcome) != before:
            yield f"{where}: observe must not change the outcome, but did"


def _try_state(make: Make, scenario: Scenario, rounds: list[Round]) -> Iterator[str]:
    """A policy that is restored half way must go on as one that never stopped."""
    try:
        policy, stopped, restored = make(scenario), make(scenario), make(scenario)
    except Exception as error:
        yield f"making the policy raised {one_line(repr(error))}"
        return
    try:
        whole = [_play(policy, round_) for round_ in rounds]
        for round_ in rounds[:_ROUNDS]:
            _play(stopped, round_)
        # As it comes back from a checkpoint.
        restored.restore(state_from_arrays(*state_to_arrays(stopped.state())))
        rest = [_play(restored, round_) for round_ in rounds[_ROUNDS:]]
    except Exception as error:
        yield f"raised {one_line(repr(error))}"
        return
    for round_, expected, found in zip(rounds[_ROUNDS:], whole[_ROUNDS:], rest, strict=True):
        if not np.array_equal(expected, found):
            yield (
                f"round {round_.index}: a policy restored from its state must answer as one that "
                f"never stopped, but does not"
            )
            return


def _try_time_limit(factory: PolicyFactory, seed: int) -> Iterator[str]:
    """Whole answers in the time that is given, with links down too."""
    scenario = numeric(clients=60, edges=3, seed=seed)
    rounds = bernoulli(scenario, _ROUNDS, seed)
    rounds[1] = replace(rounds[1], up=np.arange(len(scenario.links)) % 4 != 0)
    rounds[2] = replace(rounds[2], up=scenario.links.edge != 0)
    try:
        policy = make_policy(factory, scenario, seed, _SECONDS)
    except Exception as error:
        yield f"making the policy raised {one_line(repr(error))}"
        return
    for round_ in rounds:
        where = f"round {round_.index}"
        began = time.perf_counter()
        try:
            answer = policy.decide(round_)
        except Exception as error:
            yield f"{where}: decide raised {one_line(repr(error))}"
            return
        taken = time.perf_counter() - began
        if taken > _SECONDS + _SLACK_S:
            yield f"{where}: decide must take {_SECONDS} s, but took {taken:.1f} s"
        broken = contract_violation(round_, answer)
        if broken is not None:
            yield f"{where}: {broken}"
            return


def _try_wrappers(make: Make, rounds: list[Round]) -> Iterator[str]:
    """Remedies, diversity and replanning: over this policy, or refused in one line."""
    wrappers: dict[str, Callable[[Policy], Policy]] = {
        "remedy 'drop'": lambda policy: Remedied(policy, "drop"),
        "remedy 'reweight'": lambda policy: Remedied(policy, "reweight"),
        "remedy 'lend'": lambda policy: Remedied(policy, "lend"),
        "diversity": lambda policy: Diverse(policy, 1.0),
        "replanning": lambda policy: Replanned(policy, Triggers(every=2)),
    }
    for name, wrap in wrappers.items():
        try:
            policy = wrap(make(rounds[0].scenario))
        except StagewiseError as refusal:
            if "\n" in str(refusal):
                yield f"{name}: must be refused in one line"
            continue
        except Exception as error:
            yield f"{name}: making the policy raised {one_line(repr(error))}"
            continue
        try:
            for round_ in rounds[:_ROUNDS]:
                _play(policy, round_)
        except Exception as error:
            yield f"{name}: raised {one_line(repr(error))}"
        finally:
            policy.close()


def _play(policy: Policy, round_: Round) -> IntArray:
    """The answer in a round that then goes as decided."""
    answer = policy.decide(round_)
    decision = make_decision(round_, answer, method=policy.title, decision_ms=0.0)
    policy.observe(expected_outcome(decision))
    return answer.edge_of


def _fingerprint(round_: Round) -> tuple[bytes, ...]:
    """The bytes of every array that the round and its scenario are made of."""
    scenario = round_.scenario
    parts = (round_, round_.costs, scenario, scenario.clients, scenario.edges, scenario.links)
    return (*_bytes(*parts), scenario.clients.data.tobytes())


def _outcome_fingerprint(outcome: Outcome) -> tuple[bytes, ...]:
    return _bytes(outcome.clients, outcome.edges, outcome.decision.answer)


def _bytes(*parts: object) -> tuple[bytes, ...]:
    values = (getattr(part, field.name) for part in parts for field in fields(part))  # type: ignore[arg-type]
    return tuple(value.tobytes() for value in values if isinstance(value, np.ndarray))


def _cases(seed: int) -> Iterator[tuple[str, Scenario, list[Round]]]:
    def usual() -> Scenario:
        """Made again for each case, since a policy may have changed the last one's arrays."""
        return numeric(clients=30, edges=3, seed=seed)

    scenario = usual()
    yield "ordinary rounds", scenario, bernoulli(scenario, _ROUNDS, seed)
    scenario = usual()
    yield "fluctuating rounds", scenario, fluctuate(bernoulli(scenario, _ROUNDS, seed), seed)
    scenario = usual()
    rounds = bernoulli(scenario, _ROUNDS, seed)
    some = [replace(r, up=np.arange(len(scenario.links)) % 4 != r.index) for r in rounds]
    yield "links down", scenario, some
    scenario = usual()
    rounds = bernoulli(scenario, _ROUNDS, seed)
    gone = [replace(r, up=scenario.links.edge != r.index) for r in rounds]
    yield "an edge down", scenario, gone
    scenario = usual()
    nothing = np.zeros(len(scenario.links), dtype=np.bool_)
    yield "every link down", scenario, [replace(everybody_online(scenario), up=nothing)]
    scenario = usual()
    rounds = bernoulli(scenario, _ROUNDS, seed)
    delay_s, energy_j = scenario.costs.delay_s, scenario.costs.energy_j
    measured = [replace(r, delay_s=1.5 * delay_s, energy_j=0.5 * energy_j) for r in rounds]
    yield "measured costs", scenario, measured
    scenario = usual()
    yield "nobody online", scenario, [Round(scenario, np.zeros(30, dtype=np.bool_))]
    scenario = usual()
    yield "everybody online", scenario, [everybody_online(scenario)]
    single = numeric(clients=1, edges=1, seed=seed)
    yield "one client, one edge", single, [everybody_online(single)]
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
