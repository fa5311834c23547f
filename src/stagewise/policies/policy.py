"""The seam: whatever decides is a `Policy`, and whatever changes decisions wraps one."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Protocol

from stagewise.decisions import Answer, require_contract
from stagewise.errors import StagewiseError
from stagewise.outcomes import Outcome, State
from stagewise.plans import Plan
from stagewise.problem.statement import Mode
from stagewise.selection.component import Component
from stagewise.world.checks import instance_of
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray, Scenario


class Policy(Component, ABC):
    """Decides round after round. Only `decide` must be written; the rest has defaults.

    A policy made again with the same seed, and told the same, must give the same answers.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> class Nobody(stagewise.Policy):
    ...     def decide(self, round_):
    ...         return stagewise.Answer(np.full(len(round_.online), -1))
    >>> scenario = stagewise.generate.numeric(clients=6, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2, seed=0)
    >>> [decision.feasible for decision in stagewise.solve(scenario, rounds, Nobody())]
    [False, False]
    """

    mode: Mode = "flexible"
    """`strict` where every online long-term client must serve its own edge (12d)."""
    plan_b: str | None = None
    """For one that follows a plan: by which method absent clients are replaced."""
    takes_surcharge: bool = False
    """Whether `decide` looks at `round.surcharge`, which diversity needs."""
    binding: bool = False
    """Whether what it answers must be carried out as it is, as a service's answers must."""
    uses_feedback = False  # by itself

    @property
    def plan(self) -> Plan | None:
        """The long-term plan it follows, if it follows one."""
        return None

    def follow(self, plan: Plan) -> None:
        """Follow another plan from the next round on."""
        raise StagewiseError(f"policy {self.title!r}: must be one that follows a plan")

    def prepare(self, round_: Round) -> None:
        """Whatever is due before a round and is no part of its decision's time."""

    def probe(self, round_: Round) -> IntArray | None:
        """The online clients whose loss under the present model is asked for before `decide`."""
        return None

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        """Take in the losses that `probe` asked for; NaN where nobody knows."""

    @abstractmethod
    def decide(self, round_: Round) -> Answer:
        """Who serves where in a round.

        Only online clients may serve, only over links that are up, and no edge may have more
        clients than its capacity. The round must not be changed.
        """

    def weigh(self, round_: Round, answer: Answer) -> Answer:
        """An answer that a wrapper changed, with the weights that this policy gives to who serves."""
        return answer

    def close(self) -> None:
        """Give up whatever is under way."""


class PolicyFactory(Protocol):
    """Makes a policy for one scenario."""

    def __call__(self, scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
        """`seconds`, where given, is the time the policy may take for one decision."""
        ...


class Wrapper(Policy):
    """Changes what another policy decides; what it does not change is the other's.

    Parameters
    ----------
    policy : Policy
        The one that decides.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> import stagewise
    >>> class FirstHalf(stagewise.Wrapper):
    ...     def decide(self, round_):
    ...         first = np.arange(len(round_.online)) < len(round_.online) // 2
    ...         return super().decide(replace(round_, online=round_.online & first))
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> policy = FirstHalf(stagewise.make_policy("fedcs", scenario))
    >>> [decision] = stagewise.solve(scenario, rounds, policy)
    >>> bool((decision.edge_of[15:] == -1).all())
    True
    """

    uses_feedback = False  # by itself

    def __init__(self, policy: Policy) -> None:
        instance_of("policy", policy, Policy)
        self.policy = policy
        self.name = policy.title
        self.mode = policy.mode
        self.plan_b = policy.plan_b
        self.takes_surcharge = policy.takes_surcharge
        self.binding = policy.binding
        self.uses_feedback = policy.uses_feedback or type(self).uses_feedback

    @property
    def plan(self) -> Plan | None:
        return self.policy.plan

    def follow(self, plan: Plan) -> None:
        self.policy.follow(plan)

    def prepare(self, round_: Round) -> None:
        self.policy.prepare(round_)

    def probe(self, round_: Round) -> IntArray | None:
        return self.policy.probe(round_)

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        self.policy.told(clients, losses)

    def decide(self, round_: Round) -> Answer:
        """The answer of the other, which can be carried out."""
        answer = self.policy.decide(round_)
        require_contract(round_, answer, self.title)
        return answer

    def weigh(self, round_: Round, answer: Answer) -> Answer:
        return self.policy.weigh(round_, answer)

    def reassigned(self, round_: Round, answer: Answer, edge_of: IntArray) -> Answer:
        """The answer with another assignment, for which its clients are weighed again."""
        return self.weigh(round_, replace(answer, edge_of=edge_of, client_weights=None))

    def observe(self, outcome: Outcome) -> None:
        self.policy.observe(outcome)

    def state(self) -> State:
        within = self.policy.state()
        return {"policy": within} if within else {}

    def restore(self, state: State) -> None:
        self.policy.restore(state.get("policy", {}))

    def close(self) -> None:
        self.policy.close()


def wrapped_in(
    wrapper: Callable[[Policy], Policy], factory: PolicyFactory, name: str | None = None
) -> PolicyFactory:
    """A factory of what `factory` makes, with a wrapper around it that may have a name of its own."""

    @wraps(factory)  # what it can be given stays the same
    def make(scenario: Scenario, **options: Any) -> Policy:
        policy = wrapper(factory(scenario, **options))
        policy.name = name or policy.name
        return policy

    return make
