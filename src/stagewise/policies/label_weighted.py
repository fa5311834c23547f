"""Clients that count for more or less in their edge's mean, so that it learns from balanced labels."""

from dataclasses import replace

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.loading import load
from stagewise.policies.plan_policy import pool_flexible
from stagewise.policies.policy import Policy, Wrapper, wrapped_in
from stagewise.problem.label_weights import label_weights
from stagewise.warm_up import load_label_weights
from stagewise.world.rounds import Round


class LabelWeighted(Wrapper):
    """A policy whose clients count in Eq. 2 so that the labels are as near the target as they can be.

    Who serves where stays as the other policy decided, and costs what it cost: only the mean changes.
    FedDisco (ICML 2023) weighs clients by how far each one's own labels are off; here what counts is
    how far off they are together, at each edge and at all of them: see `problem/label_weights.py`.

    Parameters
    ----------
    policy : Policy
        Any whose answers may be changed. Weights of clients that it gives are replaced. Where a wrapper
        around this one changes who serves, or what edges count for, clients are weighed again.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.LabelWeighted(stagewise.make_policy("fedcs", scenario))
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> [decision] = stagewise.solve(scenario, rounds, policy)
    >>> decision.answer.client_weights.shape
    (30,)
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        if policy.binding:
            raise StagewiseError(
                f"label weights: needs a policy whose answers may be changed; {policy.title!r} is a "
                f"service's, which can have label weights itself"
            )
        load(load_label_weights)

    def decide(self, round_: Round) -> Answer:
        return _weighted(round_, super().decide(round_))

    def weigh(self, round_: Round, answer: Answer) -> Answer:
        return _weighted(round_, super().weigh(round_, answer))


def _weighted(round_: Round, answer: Answer) -> Answer:
    weights = label_weights(round_.scenario, answer.edge_of, edge_weights=answer.edge_weights)
    return replace(answer, client_weights=weights)


pool_to_target = wrapped_in(LabelWeighted, pool_flexible, "pool-to-target")
"""The pool, free in every round, with clients weighted by their labels."""
