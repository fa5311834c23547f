"""A conformance kit for policies: does one of your own keep the contract?

    from stagewise.testing import assert_conforms
    assert_conforms(my_package.my_policy)

The rules are those of `stagewise.Policy`, tried on small scenarios of many kinds: ordinary and
fluctuating rounds, links and whole edges down, measured costs, nobody online, everybody online, one
client, edges without capacity, clients without links; and what is asked of any policy besides: that it
learns without changing what it observes, and from training only if it says so, that it goes on from its
state as if nothing had happened, whether losses are known or not, that it keeps to a time limit, and
that remedies, diversity and replanning work over it or are refused in one line.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from stagewise.decisions import Answer, contract_violation, make_decision
from stagewise.errors import StagewiseError, one_line
from stagewise.loop import tell_losses, unknown_losses
from stagewise.outcomes import Outcome, expected_outcome
from stagewise.policies.diverse import Diverse
from stagewise.policies.label_balanced import LabelBalanced
from stagewise.policies.label_weighted import LabelWeighted
from stagewise.policies.policy import Policy, PolicyFactory
from stagewise.policies.registry import make_policy
from stagewise.policies.remedied import Remedied
from stagewise.policies.replanned import Replanned, Triggers
from stagewise.randomness import generator
from stagewise.runs.checkpoint import state_from_arrays, state_to_arrays
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import FloatArray, IntArray, Links, Scenario

_ROUNDS = 3
_SECONDS = 0.05
_SLACK_S = 5.0  # a busy machine is no breach

Make = Callable[[Scenario], Policy]


class _Feedback(NamedTuple):
    """What a policy is told: `change` of the outcome that a decision expects, and losses."""

    change: Callable[[Outcome], Outcome]
    losses_of: Callable[[IntArray], FloatArray]


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
    "ordinary rounds, seed 0: round 0: client 'c9' serves but is offline"
    """
    problems: list[str] = []
    for seed in range(seeds):
        with ExitStack() as stack:
            problems += _problems(factory, seed, stack)
    return problems


def _problems(factory: PolicyFactory, seed: int, stack: ExitStack) -> Iterator[str]:
    """With one seed; `stack` gets what closes the policies that were made."""

    def made(scenario: Scenario, seconds: float | None = None) -> Policy:
        policy = make_policy(factory, scenario, seed, seconds)
        stack.callback(policy.close)
        return policy

    # What a search finds within a time limit is not the same twice.
    make: Make = made
    for name, rounds in _cases(seed):
        yield from _lines(f"{name}, seed {seed}", _try(make, rounds, _NO_LOSSES))
    rounds = bernoulli(numeric(clients=30, edges=3, seed=seed), 2 * _ROUNDS, seed)
    yield from _lines(f"known losses, seed {seed}", _try(make, rounds, _ALL_LOSSES))
    yield from _lines(f"state, seed {seed}", _try_state(make, rounds, _NO_LOSSES))
    yield from _lines(f"feedback, seed {seed}", _try_feedback(make, rounds))
    for name, feedback in {"in training": _LOSSES_IN_TRAINING, "always": _ALL_LOSSES}.items():
        found = _try_state(make, rounds, feedback)
        yield from _lines(f"state, losses known {name}, seed {seed}", found)
    for name, wrap in _WRAPPERS.items():
        yield from _lines(f"wrapped, seed {seed}: {name}", _try_wrapper(make, wrap, rounds))
    limited = _try_time_limit(lambda scenario: made(scenario, _SECONDS), seed)
    yield from _lines(f"{_SECONDS} s for a decision, seed {seed}", limited)


def assert_conforms(factory: PolicyFactory, *, seeds: int = 2) -> None:
    """Raise an AssertionError that lists everything `factory`'s policies get wrong."""
    problems = conformance_problems(factory, seeds=seeds)
    if problems:
        raise AssertionError("\n".join(["the policy does not keep the contract:", *problems]))


class _Breach(Exception):
    """A rule that a policy broke, after which there is nothing more to try."""


def _lines(where: str, problems: Iterator[str]) -> Iterator[str]:
    try:
        for problem in problems:
            yield f"{where}: {problem}"
    except _Breach as breach:
        yield f"{where}: {breach}"


@contextmanager
def _attempt(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _Breach(f"{what}raised {one_line(repr(error))}") from error


_MAKING = "making the policy "


def _try(make: Make, rounds: list[Round], feedback: _Feedback) -> Iterator[str]:
    """The answers of one policy, and of another made the same way."""
    with _attempt(_MAKING):
        policy, again = make(rounds[0].scenario), make(rounds[0].scenario)
    for round_ in rounds:
        where = f"round {round_.index}: "
        before = _fingerprint(round_)
        with _attempt(f"{where}probe "):
            tell_losses(policy, round_, feedback.losses_of)
            tell_losses(again, round_, feedback.losses_of)
        with _attempt(f"{where}decide "):
            answer, repeated = policy.decide(round_), again.decide(round_)
        if _fingerprint(round_) != before:
            raise _Breach(f"{where}decide must not change the round or the scenario, but did")
        _require_contract(round_, answer)
        if not _alike(answer, repeated):
            yield f"{where}two policies with one seed must give one answer, but do not"
        decision = make_decision(round_, answer, method=policy.title, decision_ms=0.0)
        outcome = feedback.change(expected_outcome(decision))
        before = _outcome_fingerprint(outcome)
        with _attempt(f"{where}observe "):
            policy.observe(outcome)
            again.observe(outcome)
        if _outcome_fingerprint(outcome) != before:
            yield f"{where}observe must not change the outcome, but did"


def _require_contract(round_: Round, answer: object) -> None:
    broken = contract_violation(round_, answer)
    if broken is not None:
        raise _Breach(f"round {round_.index}: {broken}")


def _try_state(make: Make, rounds: list[Round], feedback: _Feedback) -> Iterator[str]:
    """A policy that is restored half way must go on as one that never stopped."""
    with _attempt(_MAKING):
        policy, stopped, restored = (make(rounds[0].scenario) for _ in range(3))
    if feedback is not _NO_LOSSES and not policy.uses_feedback:
        return  # `_try_feedback` says whether that is true
    with _attempt(""):
        whole = [_play(policy, round_, feedback) for round_ in rounds]
        # As it comes back from a checkpoint, that of before the first round among them.
        stopped.restore(state_from_arrays(*state_to_arrays(stopped.state())))
        for round_ in rounds[:_ROUNDS]:
            _play(stopped, round_, feedback)
        restored.restore(state_from_arrays(*state_to_arrays(stopped.state())))
        rest = [_play(restored, round_, feedback) for round_ in rounds[_ROUNDS:]]
    for round_, expected, found in zip(rounds[_ROUNDS:], whole[_ROUNDS:], rest, strict=True):
        if not _alike(expected, found):
            yield (
                f"round {round_.index}: a policy restored from its state must answer as one that "
                f"never stopped, but does not"
            )
            return


def _try_feedback(make: Make, rounds: list[Round]) -> Iterator[str]:
    """A policy that says it uses no feedback must not care what training gave."""
    with _attempt(_MAKING):
        told, untold = make(rounds[0].scenario), make(rounds[0].scenario)
    if told.uses_feedback:
        return
    for round_ in rounds:
        with _attempt(f"round {round_.index}: "):
            answer = _play(told, round_, _ALL_LOSSES)
            expected = _play(untold, round_, _NO_LOSSES)
        if not _alike(answer, expected):
            yield (
                f"round {round_.index}: answers depend on what training gave: `uses_feedback` must be "
                f"true, but is not"
            )
            return


def _drawn_losses(clients: IntArray) -> FloatArray:
    return generator(0, "losses before training", len(clients)).random(len(clients))


def _trained(outcome: Outcome) -> Outcome:
    """The same with figures as training gives them, others in every round."""
    draw = generator(0, "what training gave", outcome.decision.round.index).random
    count = len(outcome.clients)
    clients = replace(
        outcome.clients, loss_before=draw(count), loss_after=draw(count), update_norm=draw(count)
    )
    return replace(outcome, clients=clients, accuracy=float(draw()), loss=float(draw()))


_NO_LOSSES = _Feedback(lambda outcome: outcome, unknown_losses)
_LOSSES_IN_TRAINING = _Feedback(_trained, unknown_losses)  # as in a deployment
_ALL_LOSSES = _Feedback(_trained, _drawn_losses)  # as in the simulator


def _try_time_limit(make: Make, seed: int) -> Iterator[str]:
    """Whole answers in the time that is given, with links down too."""
    scenario = numeric(clients=60, edges=3, seed=seed)
    rounds = bernoulli(scenario, _ROUNDS, seed)
    rounds[1] = replace(rounds[1], up=np.arange(len(scenario.links)) % 4 != 0)
    rounds[2] = replace(rounds[2], up=scenario.links.edge != 0)
    with _attempt(_MAKING):
        policy = make(scenario)
    for round_ in rounds:
        began = time.perf_counter()
        with _attempt(f"round {round_.index}: decide "):
            answer = policy.decide(round_)
        taken = time.perf_counter() - began
        if taken > _SECONDS + _SLACK_S:
            yield f"round {round_.index}: decide must take {_SECONDS} s, but took {taken:.1f} s"
        _require_contract(round_, answer)


_WRAPPERS: dict[str, Callable[[Policy], Policy]] = {
    "remedy 'drop'": lambda policy: Remedied(policy, "drop"),
    "remedy 'reweight'": lambda policy: Remedied(policy, "reweight"),
    "remedy 'lend'": lambda policy: Remedied(policy, "lend"),
    "diversity": lambda policy: Diverse(policy, 1.0),
    "label balance": LabelBalanced,
    "label weights": LabelWeighted,
    "replanning": lambda policy: Replanned(policy, Triggers(every=2)),
}


def _try_wrapper(
    make: Make, wrap: Callable[[Policy], Policy], rounds: list[Round]
) -> Iterator[str]:
    """Remedies, diversity and replanning: over this policy, or refused in one line."""
    with _attempt(_MAKING):
        try:
            policy = wrap(make(rounds[0].scenario))
        except StagewiseError as refusal:
            if "\n" in str(refusal):
                yield "must be refused in one line"
            return
    with closing(policy), _attempt(""):
        for round_ in rounds[:_ROUNDS]:
            _play(policy, round_, _NO_LOSSES)


def _play(policy: Policy, round_: Round, feedback: _Feedback) -> Answer:
    """The answer in a round that then goes as decided, but for what `feedback` makes of it."""
    tell_losses(policy, round_, feedback.losses_of)
    answer = policy.decide(round_)
    decision = make_decision(round_, answer, method=policy.title, decision_ms=0.0)
    policy.observe(feedback.change(expected_outcome(decision)))
    return answer


def _alike(answer: Answer, other: Answer) -> bool:
    """Whether both say who serves where, and what everyone counts for, in the same way."""
    return all(
        np.array_equal(getattr(answer, part), getattr(other, part))
        for part in ("edge_of", "edge_weights", "client_weights")
    )


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


def _cases(seed: int) -> Iterator[tuple[str, list[Round]]]:
    def drawn(scenario: Scenario) -> list[Round]:
        return bernoulli(scenario, _ROUNDS, seed)

    usual: dict[str, Callable[[Scenario], list[Round]]] = {
        "ordinary rounds": drawn,
        "fluctuating rounds": lambda s: fluctuate(drawn(s), seed),
        "links down": lambda s: [
            replace(r, up=np.arange(len(s.links)) % 4 != r.index) for r in drawn(s)
        ],
        "an edge down": lambda s: [replace(r, up=s.links.edge != r.index) for r in drawn(s)],
        "every link down": lambda s: [replace(everybody_online(s), up=s.links.edge < 0)],
        "measured costs": lambda s: [
            replace(r, delay_s=1.5 * s.costs.delay_s, energy_j=0.5 * s.costs.energy_j)
            for r in drawn(s)
        ],
        "nobody online": lambda s: [Round(s, np.zeros(30, dtype=np.bool_))],
        "everybody online": lambda s: [everybody_online(s)],
        "edges with next to no capacity": lambda s: drawn(
            replace(s, edges=replace(s.edges, capacity=np.array([0, 1, 2])), file_sha256=None)
        ),
        "clients without links": lambda s: drawn(
            replace(s, links=_without_some(s.links), file_sha256=None)
        ),
    }
    for name, rounds_of in usual.items():
        # Made again for each case, since a policy may have changed the last one's arrays.
        yield name, rounds_of(numeric(clients=30, edges=3, seed=seed))
    yield "one client, one edge", [everybody_online(numeric(clients=1, edges=1, seed=seed))]


def _without_some(links: Links) -> Links:
    """The links of every second client."""
    kept = links.client % 2 == 0
    start = np.concatenate([[0], np.cumsum(kept)])[links.start]
    return Links(start=start, edge=links.edge[kept], gain=links.gain[kept])
