"""The conformance kit: it passes what keeps the contract and catches what does not."""

from collections.abc import Callable

import numpy as np
import pytest

from stagewise.policy import policy_factory, policy_names
from stagewise.testing import assert_conforms, conformance_problems
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_of_ours_conforms(name):
    assert_conforms(policy_factory(name), seeds=1)


class Greedy:
    """Every online client at its first edge with room; what it then does to that is `spoil`."""

    def __init__(self, scenario: Scenario, spoil: Callable | None = None) -> None:
        self.scenario = scenario
        self.spoil = spoil

    def decide(self, round_: Round, index: int) -> np.ndarray:
        links, room = self.scenario.links, self.scenario.edges.capacity.copy()
        answer = np.full(len(self.scenario.clients), -1)
        for client in np.flatnonzero(round_.online).tolist():
            for edge in links.edge[links.start[client] : links.start[client + 1]].tolist():
                if answer[client] < 0 and room[edge] > 0:
                    answer[client] = edge
                    room[edge] -= 1
        return answer if self.spoil is None else self.spoil(round_, index, answer)


def factory(spoil: Callable | None = None) -> Callable:
    return lambda scenario, *, seed, seconds: Greedy(scenario, spoil)


def problems_of(spoil: Callable, seeds: int = 1) -> list[str]:
    return conformance_problems(factory(spoil), seeds=seeds)


def test_a_policy_of_ones_own_conforms():
    assert conformance_problems(factory()) == []
    assert_conforms(factory(), seeds=1)


def serve_the_absent(round_, index, answer):
    links = round_.scenario.links
    for client in np.flatnonzero(~round_.online & (np.diff(links.start) > 0)).tolist():
        answer[client] = links.edge[links.start[client]]
    return answer


def serve_without_link(round_, index, answer):
    scenario = round_.scenario
    for client in np.flatnonzero(answer >= 0).tolist():
        covered = scenario.links.edge[
            scenario.links.start[client] : scenario.links.start[client + 1]
        ]
        free = np.setdiff1d(np.arange(len(scenario.edges)), covered)
        if len(free):
            answer[client] = free[0]
            break
    return answer


def overfill(round_, index, answer):
    links = round_.scenario.links
    for client in np.flatnonzero(round_.online & (np.diff(links.start) > 0)).tolist():
        answer[client] = links.edge[links.start[client]]
    return answer


def random_answer(round_, index, answer):
    answer[np.random.default_rng().random(len(answer)) < 0.5] = -1
    return answer


def fail(round_, index, answer):
    raise RuntimeError("no idea\nat all")


def fail_later(round_, index, answer):
    if index == 2:
        raise RuntimeError("no idea")
    return answer


SPOILED = {
    "offline": (serve_the_absent, "serves but is offline"),
    "no link": (serve_without_link, "has no link to edge"),
    "capacity": (overfill, "above its capacity"),
    "floats": (lambda r, g, a: a.astype(float), "NumPy array of whole numbers"),
    "list": (lambda r, g, a: a.tolist(), "NumPy array of whole numbers"),
    "shape": (lambda r, g, a: a[None], "must have shape"),
    "short": (lambda r, g, a: a[:-1], "must have shape"),
    "unknown edge": (lambda r, g, a: np.full_like(a, 99), "does not exist"),
    "nothing": (lambda r, g, a: None, "NumPy array of whole numbers"),
    "random": (random_answer, "must give one answer"),
    "raises": (fail, r"decide raised RuntimeError\('no idea\\nat all'\)"),
    "raises later": (fail_later, "round 2: decide raised RuntimeError"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_breach_is_caught(name):
    spoil, message = SPOILED[name]
    problems = problems_of(spoil)
    assert problems
    assert all("\n" not in line for line in problems)
    with pytest.raises(AssertionError, match=message) as error:
        assert_conforms(factory(spoil), seeds=1)
    first, *lines = str(error.value).splitlines()
    assert first == "the policy does not keep the contract:"
    if name != "random":
        assert lines == problems


CHANGES: dict[str, Callable[[Round], np.ndarray]] = {
    "who is online": lambda r: r.online,
    "the round's delays": lambda r: r.costs.delay_s,
    "the round's energies": lambda r: r.costs.energy_j,
    "the gains": lambda r: r.scenario.links.gain,
    "the links": lambda r: r.scenario.links.edge,
    "the label counts": lambda r: r.scenario.clients.label_counts,
    "the data sizes": lambda r: r.scenario.clients.data,
    "the CPUs": lambda r: r.scenario.clients.cpu_hz,
    "the powers": lambda r: r.scenario.clients.tx_power_w,
    "the probabilities": lambda r: r.scenario.clients.online_probability,
    "the capacities": lambda r: r.scenario.edges.capacity,
    "the uplinks": lambda r: r.scenario.edges.uplink_delay_s,
    "the bandwidths": lambda r: r.scenario.edges.bandwidth_hz,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_policy_that_changes_the_world_is_caught(name):
    def spoil(round_, index, answer):
        array = CHANGES[name](round_)
        array[0] = not array[0] if array.dtype == np.bool_ else array[0] + 1
        return answer

    assert any("must not change the round or the scenario" in line for line in problems_of(spoil))


def test_a_rounds_own_cpus_are_part_of_the_world():
    def spoil(round_, index, answer):
        if round_.cpu_hz is not None:
            round_.cpu_hz[0] += 1
        return answer

    assert any("must not change the round" in line for line in problems_of(spoil))


def test_a_factory_that_raises_is_caught():
    def broken(scenario, *, seed, seconds):
        raise ValueError("not here")

    problems = conformance_problems(broken, seeds=1)
    assert problems
    assert all("making the policy raised ValueError('not here')" in line for line in problems)


def test_a_factory_without_the_keywords_is_caught():
    assert conformance_problems(lambda scenario: Greedy(scenario), seeds=1)


def test_every_seed_is_tried():
    seen = set()

    def noting(scenario, *, seed, seconds):
        seen.add(seed)
        return Greedy(scenario)

    conformance_problems(noting, seeds=3)
    assert seen == {0, 1, 2}


def test_answers_may_depend_on_the_time_that_is_given():
    """A policy that searches for as long as it may cannot answer alike twice: none is given."""
    allowed = set()

    def noting(scenario, *, seed, seconds):
        allowed.add(seconds)
        return Greedy(scenario)

    assert conformance_problems(noting, seeds=1) == []
    assert allowed == {None}


def test_a_state_that_carries_over_is_no_breach():
    """Answers may depend on the rounds before, as long as a policy made anew gives them again."""

    class Counting(Greedy):
        calls = 0

        def decide(self, round_, index):
            self.calls += 1
            answer = super().decide(round_, index)
            answer[: self.calls] = -1
            return answer

    assert conformance_problems(lambda s, *, seed, seconds: Counting(s), seeds=1) == []
