"""FedCor: clients whose training is expected to lower the losses of all, by how these change together.

M. Tang et al.: FedCor: Correlation-Based Active Client Selection Strategy for Heterogeneous Federated
Learning. CVPR 2022.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.outcomes import Outcome, State
from stagewise.randomness import generator
from stagewise.selection.loss_changes import fitted, greatest_decrease
from stagewise.selection.selector import Selector, candidates, checked_k, number_of_clients
from stagewise.world.checks import finite, whole
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

_FIRST_STEPS, _LATER_STEPS = 1000, 100  # of the fit, as in the authors' code with `--update_mean`
_STATE = (
    *("rounds", "points", "annealing", "last", "known_in"),
    *("changes", "sampled_in", "fits", "is_fitted"),
)


@dataclass(eq=False)
class FedCor(Selector):
    """At random during a warm-up, in which all losses are asked for; then as a Gaussian process says.

    In every `interval`-th round after the warm-up clients are chosen at random again, and the change of
    losses is one more sample: the authors' code trains such a round beside the real one, which costs
    twice and which nobody can do in a deployment. Of clients that are offline no loss is known, and a
    sample has the others alone. Where no losses can be asked for, samples have the clients that
    trained: by how much their first loss differs from the last that was known.

    Defaults and the fit are those of the commands that the authors' README gives for Fashion-MNIST, with
    `--update_mean`: changes are taken from their weighted mean, and there is one long fit after the
    warm-up, then a short one after every sample.

    Parameters
    ----------
    k : int, optional
        How many clients; by default what the round needs (`number_of_clients`).
    warmup : int
        The rounds of the warm-up.
    interval : int
        After how many rounds losses are sampled again.
    annealing : float
        What remains of a client's value each time that it is chosen, until the next sample (beta).
    dimension : int
        Of the space in which clients stand that change alike.
    history : int
        For how many rounds a sample is used (M).
    discount : float
        What a sample counts for when it is a round older (gamma).
    seed : int
        Of the draws.
    """

    k: int | None = None
    warmup: int = 15
    interval: int = 10
    annealing: float = 0.95
    dimension: int = 15
    history: int = 100
    discount: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        checked_k(self.k)
        for name in ("warmup", "interval", "dimension", "history"):
            whole(name, getattr(self, name), 1)
        finite("annealing", self.annealing, 0, 1)
        finite("discount", self.discount, 0, 1)
        self._rounds = 0
        self._points = np.zeros((0, self.dimension))
        self._annealing, self._last, self._told = np.zeros((3, 0))
        self._known_in, self._sampled_in = np.zeros((2, 0), dtype=np.int64)
        self._changes = np.zeros((0, 0))
        self._fits, self._is_fitted = 0, True

    def probe(self, round_: Round) -> IntArray | None:
        self._reach(len(round_.online))
        before, after = self._samples(self._rounds), self._samples(self._rounds - 1)
        return candidates(round_) if before or after else None

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        self._told = np.full(len(self._last), np.nan)
        self._told[clients] = losses
        # Of who was not there a round ago nobody knows what the round did.
        self._learn(self._told, sampled_in=self._rounds - 1, since=self._rounds - 1)

    def select(self, round_: Round) -> IntArray:
        self._reach(len(round_.online))
        clients = candidates(round_)
        count = number_of_clients(self.k, round_, len(clients))
        if self._samples(self._rounds) or len(self._changes) == 0:
            rng = generator(self.seed, "FedCor", round_.index)
            return rng.choice(clients, count, replace=False)
        if not self._is_fitted:
            weights = self.discount ** (self._sampled_in[-1] - self._sampled_in).astype(float)
            steps = _LATER_STEPS if self._fits else _FIRST_STEPS
            self._points = fitted(self._points, self._changes, weights, steps)
            self._fits, self._is_fitted = self._fits + 1, True
        data = round_.scenario.clients.data
        return greatest_decrease(self._points, data / data.sum(), self._annealing, clients, count)

    def observe(self, outcome: Outcome) -> None:
        count = len(outcome.decision.edge_of)
        self._reach(count)
        first = np.full(count, np.nan)
        first[outcome.clients.client] = outcome.clients.loss_before
        # What was told of all data is better than what a first batch says.
        known = np.isfinite(self._told) if len(self._told) else np.zeros(count, dtype=np.bool_)
        self._learn(np.where(known, np.nan, first), sampled_in=self._rounds, since=0)
        self._told = np.zeros(0)
        trained = outcome.decision.edge_of != UNASSIGNED
        self._annealing = np.where(trained, self.annealing * self._annealing, self._annealing)
        if self._samples(self._rounds):
            self._annealing = np.ones(count)
        self._rounds += 1

    def _samples(self, number: int) -> bool:
        """Whether a round's change of losses is a sample: clients are then chosen at random."""
        after = number - self.warmup + 1
        return 0 <= number < self.warmup or (after > 0 and after % self.interval == 0)

    def _learn(self, losses: FloatArray, sampled_in: int, since: int) -> None:
        """Keep losses that are known, and the change to them if the round is one to sample.

        Changes are from losses that were known in round `since` or later.
        """
        change = np.where(self._known_in >= since, losses - self._last, np.nan)
        if self._samples(sampled_in) and np.isfinite(change).any():
            recent = self._sampled_in + self.history >= sampled_in
            self._changes = np.vstack([self._changes[recent], change])
            self._sampled_in = np.append(self._sampled_in[recent], sampled_in)
            self._is_fitted = False
        self._last = np.where(np.isfinite(losses), losses, self._last)
        self._known_in = np.where(np.isfinite(losses), self._rounds, self._known_in)

    def state(self) -> State:
        return {name: getattr(self, f"_{name}") for name in _STATE}

    def restore(self, state: State) -> None:
        for name in _STATE:
            setattr(self, f"_{name}", state[name])
        self._told = np.zeros(0)

    def _reach(self, count: int) -> None:
        if len(self._last) < count:
            rng = generator(self.seed, "FedCor points")
            # So that a client's variance is 1 in the mean, as in the authors' code.
            self._points = rng.standard_normal((count, self.dimension)) / np.sqrt(self.dimension)
            self._annealing, self._last = np.ones(count), np.full(count, np.nan)
            self._known_in = np.full(count, -1)
            self._changes = np.zeros((0, count))
