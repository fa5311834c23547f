"""Rounds with outcomes as training gives them, recorded once and told to whoever is tested."""

from dataclasses import replace

import numpy as np

from stagewise.decisions import Answer, make_decision
from stagewise.outcomes import Outcome, expected_outcome
from stagewise.selection.associators import LeastDelay
from stagewise.selection.selector import Selector, candidates
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

Recorded = list[tuple[Round, Outcome]]


def recorded(
    seed: int, rounds: int = 8, clients: int = 30, scenario: Scenario | None = None
) -> Recorded:
    """Rounds in which a random half trains, with random losses, seconds and norms; some of them lost."""
    scenario = numeric(clients=clients, edges=3, seed=seed) if scenario is None else scenario
    rng = np.random.default_rng(seed)
    found = []
    for round_ in bernoulli(scenario, rounds, seed):
        able = candidates(round_)
        chosen = able[rng.random(len(able)) < 0.5]
        answer = Answer(LeastDelay().associate(round_, chosen))
        decision = make_decision(round_, answer, method="recorded", decision_ms=0.0)
        outcome = expected_outcome(decision)
        count = len(outcome.clients)
        losses = rng.gamma(2.0, 1.0, (2, count))
        losses[:, rng.random(count) < 0.1] = np.nan
        told = replace(
            outcome.clients,
            loss_before=losses[0],
            loss_after=losses[1],
            update_norm=rng.gamma(2.0, 1.0, count),
            seconds=rng.gamma(2.0, 3.0, count),
        )
        found.append((round_, replace(outcome, clients=told)))
    return found


def selections(selector: Selector, record: Recorded) -> list[list[int]]:
    """Whom `selector` selects in each round, ascending, when told what was recorded."""
    found = []
    for round_, outcome in record:
        found.append(sorted(selector.select(round_).tolist()))
        selector.observe(outcome)
    return found


def table(outcome: Outcome) -> list[dict[str, float]]:
    """The clients of an outcome, a dictionary each."""
    told = outcome.clients
    names = ("client", "edge", "samples", "loss_before", "loss_after", "update_norm", "seconds")
    columns = {name: getattr(told, name).tolist() for name in names}
    return [{name: columns[name][row] for name in names} for row in range(len(told))]


def online(round_: Round) -> list[int]:
    """Who may be selected, said again."""
    links = round_.scenario.links
    return sorted({int(c) for c, usable in zip(links.client, round_.usable, strict=True) if usable})
