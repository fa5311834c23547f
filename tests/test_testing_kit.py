"""The conformance kit: it passes what keeps the contract and catches what does not."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from helpers import PROFILE
from stagewise import testing
from stagewise.decisions import Answer
from stagewise.policies import plan_policy
from stagewise.policies.compose import Compose
from stagewise.policies.policy import Policy, Wrapper
from stagewise.policies.registry import policy_factory, policy_names
from stagewise.selection.associators import LeastDelay
from stagewise.selection.selector import Selector, candidates
from stagewise.testing import assert_conforms, conformance_problems
from stagewise.world.rounds import Round


class Greedy(Policy):
    """Every online client at its first edge with room; what it then does to that is `spoil`."""

    def __init__(self, spoil: Callable | None = None) -> None:
        self.spoil = spoil

    def decide(self, round_: Round) -> Answer:
        links, room = round_.scenario.links, round_.scenario.edges.capacity.copy()
        answer = np.full(len(round_.online), -1)
        for link in np.flatnonzero(round_.usable).tolist():
            client, edge = links.client[link], links.edge[link]
            if answer[client] < 0 and room[edge] > 0:
                answer[client] = edge
                room[edge] -= 1
        spoilt = answer if self.spoil is None else self.spoil(round_, round_.index, answer)
        return Answer(spoilt) if isinstance(spoilt, np.ndarray) else spoilt


def factory(spoil: Callable | None = None) -> Callable:
    return lambda scenario, *, seed, seconds: Greedy(spoil)


def problems_of(spoil: Callable, seeds: int = 1) -> list[str]:
    return conformance_problems(factory(spoil), seeds=seeds)


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_of_ours_conforms(name):
    if PROFILE == "quick" and policy_factory(name).__module__ == plan_policy.__name__:
        pytest.skip("makes some forty plans: in `make test-all`")
    assert_conforms(policy_factory(name), seeds=1)


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


def use_links_that_are_down(round_, index, answer):
    links = round_.scenario.links
    if round_.up is not None and round_.edges_up.all():
        for link in np.flatnonzero(~round_.up & round_.online[links.client]).tolist():
            answer[:] = -1
            answer[links.client[link]] = links.edge[link]
    return answer


def use_edges_that_are_gone(round_, index, answer):
    links = round_.scenario.links
    for link in np.flatnonzero(~round_.edges_up[links.edge] & round_.online[links.client]).tolist():
        answer[:] = -1
        answer[links.client[link]] = links.edge[link]
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
    "floats": (lambda r, g, a: a.astype(float), "must be an array of whole numbers"),
    "list": (lambda r, g, a: a.tolist(), "must be a stagewise.Answer, not list"),
    "shape": (lambda r, g, a: a[None], "must be an array of whole numbers, one for each client"),
    "short": (lambda r, g, a: a[:-1], "must have shape"),
    "unknown edge": (lambda r, g, a: np.full_like(a, 99), "does not exist"),
    "nothing": (lambda r, g, a: None, "must be a stagewise.Answer, not NoneType"),
    "links down": (use_links_that_are_down, "has a link down to edge"),
    "an edge that is gone": (use_edges_that_are_gone, "has a link down to edge"),
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

    assert_caught(problems_of(spoil))


def test_a_rounds_own_cpus_are_part_of_the_world():
    def spoil(round_, index, answer):
        if round_.cpu_hz is not None:
            round_.cpu_hz[0] += 1
        return answer

    assert_caught(problems_of(spoil))


def assert_caught(problems: list[str]) -> None:
    """Frozen arrays refuse to be changed; whatever can be changed is noticed."""
    changed = "must not change the round or the scenario"
    assert any(changed in line or "read-only" in line for line in problems), problems


def test_a_factory_that_raises_is_caught():
    def broken(scenario, *, seed, seconds):
        raise ValueError("not here")

    problems = conformance_problems(broken, seeds=1)
    assert problems
    assert all("making the policy raised ValueError('not here')" in line for line in problems)


def test_a_factory_without_the_keywords_is_caught():
    assert conformance_problems(lambda scenario: Greedy(), seeds=1)


def test_every_seed_is_tried():
    seen = set()

    def noting(scenario, *, seed, seconds):
        seen.add(seed)
        return Greedy()

    conformance_problems(noting, seeds=3)
    assert seen == {0, 1, 2}


def test_answers_may_depend_on_the_time_that_is_given():
    """A policy that searches for as long as it may cannot answer alike twice."""

    def hasty(scenario, *, seed, seconds):
        return Greedy() if seconds is None else Greedy(random_answer)

    assert conformance_problems(hasty, seeds=1) == []


def test_a_time_limit_must_be_kept_with_whole_answers(monkeypatch):
    monkeypatch.setattr(testing, "_SLACK_S", 0.0)

    def late(round_, index, answer):
        time.sleep(2 * testing._SECONDS)
        return answer

    def slow(scenario, *, seed, seconds):
        return Greedy(None if seconds is None else late)

    def careless(scenario, *, seed, seconds):
        return Greedy(None if seconds is None else use_links_that_are_down)

    def refusing(scenario, *, seed, seconds):
        return Greedy(None if seconds is None else fail)

    for made, message in (
        (slow, "decide must take 0.05 s, but took"),
        (careless, "has a link down to edge"),
        (refusing, "decide raised RuntimeError"),
    ):
        problems = conformance_problems(made, seeds=1)
        assert problems and all(message in line for line in problems)
        assert all(line.startswith("0.05 s for a decision, seed 0: round ") for line in problems)


class Counting(Greedy):
    """Lets one client more rest in every round that it decided; it keeps the count."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def decide(self, round_):
        answer = super().decide(round_).edge_of.copy()
        answer[: self.calls] = -1
        return Answer(answer)

    def observe(self, outcome):
        self.calls += 1

    def state(self):
        return {"calls": self.calls}

    def restore(self, state):
        self.calls = state["calls"]


def problems_with(kind: type[Policy]) -> list[str]:
    return conformance_problems(lambda scenario, *, seed, seconds: kind(), seeds=1)


def test_a_state_that_carries_over_is_no_breach():
    """Answers may depend on the rounds before, as long as the policy's state tells of them."""
    assert problems_with(Counting) == []


def test_the_state_of_before_the_first_round_must_be_restored_too():
    class Late(Counting):
        def state(self):
            return {"calls": self.calls} if self.calls else {}

    problems = problems_with(Late)
    assert problems and all("KeyError" in line for line in problems)


def test_a_state_that_is_not_told_is_caught():
    class Forgetful(Counting):
        def state(self):
            return {}

        def restore(self, state): ...

    class Deaf(Counting):
        def restore(self, state): ...

    class Unsound(Counting):
        def restore(self, state):
            raise KeyError("calls")

    class Unkept(Counting):
        """A state that no checkpoint can hold."""

        def state(self):
            return {"calls": lambda: self.calls}

    for kind in (Forgetful, Deaf):
        assert [line for line in problems_with(kind) if "a policy restored from its state" in line]
    for kind in (Unsound, Unkept):
        assert [line for line in problems_with(kind) if line.startswith("state, seed 0: raised")]


class HighestLoss(Selector):
    """The five whose last loss was highest, in training or where `asks` before; it keeps no state."""

    def __init__(self, asks: bool) -> None:
        self.asks, self.last = asks, {}

    def probe(self, round_):
        return candidates(round_)[::3] if self.asks else None

    def told(self, clients, losses):
        self.keep(clients, losses)

    def select(self, round_):
        clients = candidates(round_)
        loss = np.array([self.last.get(client, 0.5) for client in clients.tolist()])
        return clients[np.argsort(-loss, kind="stable")][:5]

    def observe(self, outcome):
        if not self.asks:
            self.keep(outcome.clients.client, outcome.clients.loss_after)

    def keep(self, clients, losses):
        told = zip(clients.tolist(), losses.tolist(), strict=True)
        self.last |= {client: loss for client, loss in told if loss == loss}


class Remembering(HighestLoss):
    def state(self):
        return {"clients": list(self.last), "losses": list(self.last.values())}

    def restore(self, state):
        self.last = dict(zip(state["clients"], state["losses"], strict=True))


@pytest.mark.parametrize("asks", [True, False])
def test_losses_that_are_not_part_of_the_state_are_caught(asks):
    def problems(kind):
        def make(scenario, *, seed, seconds):
            return Compose(kind(asks), LeastDelay())

        return conformance_problems(make, seeds=1)

    assert problems(Remembering) == []
    found = problems(HighestLoss)
    where = [line.partition(": ")[0] for line in found]
    known = ["always"] if asks else ["in training", "always"]
    assert where == [f"state, losses known {when}, seed 0" for when in known]
    rule = "a policy restored from its state must answer as one that never stopped"
    assert all(rule in line for line in found)


LEARNING = ["oort,k=6", "power-of-choice,k=6", "fedcor,k=6,warmup=2,interval=4", "fedlecc,k=6"]


@pytest.mark.parametrize("name", LEARNING)
def test_what_our_selectors_learn_is_in_their_state(name, monkeypatch):
    make = policy_factory(name)
    assert_conforms(make, seeds=1)
    monkeypatch.setattr(Compose, "state", lambda policy: {})
    monkeypatch.setattr(Compose, "restore", lambda policy, state: None)
    problems = conformance_problems(make, seeds=1)
    assert any(line.startswith("state, losses known in training, seed 0: ") for line in problems)


def test_two_policies_that_learn_must_learn_alike():
    class Moody(HighestLoss):
        def keep(self, clients, losses):
            super().keep(clients, losses * np.random.default_rng().random(len(losses)))

    def make(scenario, *, seed, seconds):
        return Compose(Moody(asks=False), LeastDelay())

    problems = conformance_problems(make, seeds=1)
    assert any(
        line.startswith("known losses, seed 0: ") and "must give one answer" in line
        for line in problems
    )


def test_what_is_not_a_plain_value_must_survive_a_checkpoint():
    """Tuples come back as lists, and arrays as arrays of the same kind."""

    class Various(Counting):
        def state(self):
            return {"calls": np.array([self.calls]), "pair": (1, 2), "deep": {"a": [np.ones(2)]}}

        def restore(self, state):
            assert state["pair"] == [1, 2]
            assert state["deep"]["a"][0].tolist() == [1.0, 1.0]
            self.calls = int(state["calls"][0])

    assert problems_with(Various) == []


OUTCOMES: dict[str, Callable] = {
    "samples": lambda outcome: outcome.clients.samples,
    "seconds": lambda outcome: outcome.clients.seconds,
    "clients": lambda outcome: outcome.clients.client,
    "data": lambda outcome: outcome.edges.data,
    "divergence": lambda outcome: outcome.edges.kld,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_policy_that_changes_what_it_is_told_is_caught(name):
    class Meddling(Greedy):
        def observe(self, outcome):
            array = OUTCOMES[name](outcome)
            if len(array):
                array[0] += 1

    problems = problems_with(Meddling)
    changed = "observe must not change the outcome"
    assert any(changed in line or "read-only" in line for line in problems), problems


def test_an_observe_that_raises_is_caught():
    class Failing(Greedy):
        def observe(self, outcome):
            raise RuntimeError("no memory")

    assert any(
        "observe raised RuntimeError('no memory')" in line for line in problems_with(Failing)
    )


def test_wrappers_must_work_over_it():
    """A policy that claims to take surcharges, and fails where it is shown one."""

    class Overcharged(Greedy):
        takes_surcharge = True

        def decide(self, round_):
            if round_.surcharge is not None:
                raise RuntimeError("what is that?")
            return super().decide(round_)

    problems = problems_with(Overcharged)
    assert problems == ["wrapped, seed 0: diversity: raised RuntimeError('what is that?')"]


def test_a_refusal_of_several_lines_is_caught():
    class Wordy(Greedy):
        @property
        def title(self):
            return "Wordy\nindeed"

    class Plain(Greedy):
        name = "a\nb"

    for kind in (Wordy, Plain):
        refused = [line for line in problems_with(kind) if "must be refused in one line" in line]
        assert refused == [] or all("\n" not in line for line in refused)


def test_objects_that_are_no_policies_are_caught():
    class Alike:
        plan = None

        def decide(self, round_):
            return Answer(np.full(len(round_.online), -1))

        def observe(self, outcome): ...

        def state(self):
            return {}

        def restore(self, state): ...

    for made in (Alike(), None, 7, np.zeros(3)):
        problems = conformance_problems(lambda s, *, seed, seconds, made=made: made, seeds=1)
        assert problems
        assert all("\n" not in line for line in problems)
        assert any("must be a stagewise.Policy" in line for line in problems)


def test_a_wrapper_of_ones_own_conforms():
    class Modest(Wrapper):
        """One client less than the policy within would have."""

        def decide(self, round_):
            answer = self.policy.decide(round_).edge_of.copy()
            answer[np.flatnonzero(answer >= 0)[:1]] = -1
            return Answer(answer)

    assert conformance_problems(lambda s, *, seed, seconds: Modest(Counting()), seeds=1) == []


def test_losses_that_were_told_are_feedback_too():
    class Listener(Greedy):
        """Rests where it was told a loss, and says that it does not listen."""

        uses_feedback = False

        def probe(self, round_):
            self.heard = np.zeros(len(round_.online), dtype=bool)
            return candidates(round_)

        def told(self, clients, losses):
            self.heard[clients[losses > 0.5]] = True

        def decide(self, round_):
            heard = getattr(self, "heard", np.zeros(len(round_.online), dtype=bool))
            return Answer(np.where(heard, -1, super().decide(round_).edge_of))

    assert any("`uses_feedback` must be true" in line for line in problems_with(Listener))
