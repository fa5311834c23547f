"""What the best decision of a round costs, with a certificate; kept by what the round is."""

import hashlib
import math

import msgspec

from stagewise.decisions import make_decision
from stagewise.policies.registry import make_policy
from stagewise.serve.store import Store
from stagewise.world.rounds import Round
from stagewise.world.rounds_file import line_of_round


class Optimum(msgspec.Struct, frozen=True):
    """The certified optimum of a round, as far as it is known."""

    round: int
    cost: float | None
    """Of the best decision found; null where none within the limits is known."""
    lower_bound: float | None
    """No decision within the limits costs less; null where it is proven that there is none."""


def round_digest(round_: Round) -> str:
    return hashlib.sha256(msgspec.json.encode(line_of_round(round_))).hexdigest()


def optimum(round_: Round, seconds: float) -> Optimum:
    """`exact` on one round."""
    policy = make_policy("exact", round_.scenario, 0, seconds)
    decision = make_decision(
        round_, policy.decide(round_), method=policy.title, decision_ms=math.nan
    )
    cost = decision.objective if decision.feasible else None
    return Optimum(round_.index, cost, decision.lower_bound)


def known_bounds(store: Store, rounds: list[Round]) -> list[Optimum]:
    """Of these rounds, those whose bounds are known."""
    if not rounds:
        return []
    digests = [round_digest(round_) for round_ in rounds]
    known = store.bounds(rounds[0].scenario.sha256, digests)
    return [
        Optimum(round_.index, known[digest].cost, known[digest].lower_bound)
        for round_, digest in zip(rounds, digests, strict=True)
        if digest in known
    ]


def keep_bound(store: Store, round_: Round, bound: Optimum) -> None:
    sha256 = round_.scenario.sha256
    store.add_bound(sha256, round_digest(round_), bound.cost, bound.lower_bound)
