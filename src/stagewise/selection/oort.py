"""Oort: clients whose data still teaches the model most, and who are fast enough.

F. Lai, X. Zhu, H. V. Madhyastha, M. Chowdhury: Oort: Efficient Federated Learning via Guided Participant
Selection. OSDI 2021, Alg. 1.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.outcomes import Outcome, State
from stagewise.randomness import generator
from stagewise.selection.selector import (
    Selector,
    candidates,
    checked_k,
    least_delay_s,
    number_of_clients,
    sample,
)
from stagewise.world.checks import finite, whole
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

_WHOLE = 100.0  # per cent
_PERIOD = 0.1  # in the term of temporal uncertainty
_LEAST_RANGE = 1e-4
_BELOW_LEAST = 0.999  # so that the least utility stays above 0, as in the authors' code


@dataclass(eq=False)
class Oort(Selector):
    """Exploits clients of high utility, explores fast ones, and relaxes its deadline as utility falls.

    What Alg. 1 leaves open, and what was chosen: the preferred duration T is a percentile of the
    durations known, as in the authors' code, which starts at `deadline` per cent and grows by
    `pacer_step`; the pacer looks every `window` rounds, first after two of these. Utilities are
    scaled to 0 to 1 before the uncertainty is added, as in the authors' code, since it would not weigh
    anything otherwise. Unexplored clients are drawn in inverse proportion to the seconds that the round
    predicts.

    Parameters
    ----------
    k : int, optional
        How many clients; by default what the round needs (`number_of_clients`).
    exploration, exploration_decay, exploration_min : float
        The share of unexplored clients: in the first round, what a round leaves of it, at least.
    deadline, pacer_step : float
        Where the percentile of durations that is not penalised starts, and its step.
    window : int
        The rounds that the pacer compares with as many before them.
    penalty : float
        The power of T / duration that the utility of a slower client is multiplied by.
    cutoff : float
        The share of the last exploited client's utility from which on others are drawn too.
    clip : float
        The percentile of utilities, as a part of 1, above which they count as that.
    most_rounds : int, optional
        A client that was asked more often than this is never asked again, as in the authors' code,
        so that in the end nobody is left; by default all are.
    seed : int
        Of the draws.
    """

    k: int | None = None
    exploration: float = 0.9
    exploration_decay: float = 0.98
    exploration_min: float = 0.2
    deadline: float = 10.0
    pacer_step: float = 5.0
    window: int = 20
    penalty: float = 2.0
    cutoff: float = 0.95
    clip: float = 0.95
    most_rounds: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checked_k(self.k)
        for name in ("exploration", "exploration_decay", "exploration_min", "cutoff", "clip"):
            finite(name, getattr(self, name), 0, 1)
        for name in ("deadline", "pacer_step"):
            finite(name, getattr(self, name), 0, _WHOLE)
        finite("penalty", self.penalty, 0)
        whole("window", self.window, 1)
        if self.most_rounds is not None:
            whole("most_rounds", self.most_rounds, 1)
        self._percentile = self.deadline
        self._achieved: list[float] = []
        self._utility, self._duration = np.zeros((2, 0))
        self._last, self._times = np.zeros((2, 0), dtype=np.int64)

    def select(self, round_: Round) -> IntArray:
        self._reach(len(round_.online))
        clients = candidates(round_)
        if self.most_rounds is not None:
            clients = clients[self._times[clients] <= self.most_rounds]
        count = number_of_clients(self.k, round_, len(clients))
        rng = generator(self.seed, "Oort", round_.index)
        rounds = len(self._achieved)  # R - 1: those that are over
        share = max(self.exploration * self.exploration_decay**rounds, self.exploration_min)
        explored = self._last[clients] > 0
        known, new = clients[explored], clients[~explored]
        exploited = min(int(count * (1 - share)), len(known))
        if len(new) < count - exploited:  # nobody is left to explore
            exploited = count - len(new)
        chosen = self._exploit(rng, known, exploited)
        # SampleBySpeed(C - E, epsilon K)
        speed = 1 / np.maximum(least_delay_s(round_)[new], np.finfo(float).tiny)
        return np.concatenate([chosen, sample(rng, new, speed, count - exploited)])

    def _exploit(self, rng: np.random.Generator, known: IntArray, count: int) -> IntArray:
        """`count` of `known`, drawn by utility from those near the best (Exploitation #2)."""
        if count == 0:
            return known[:0]
        utility = self._utilities(known)
        ranked = np.argsort(-utility, kind="stable")
        # The authors' code takes the client behind the last exploited one, where there is one.
        enough = self.cutoff * utility[ranked[min(count, len(known) - 1)]]
        admitted = ranked[utility[ranked] >= enough]
        return sample(rng, known[admitted], utility[admitted], count)

    def _utilities(self, known: IntArray) -> FloatArray:
        """Util(i) of Alg. 1 (Exploitation #1)."""
        gained = self._utility[known]
        top = np.sort(gained)[min(int(len(gained) * self.clip), len(gained) - 1)]
        least = _BELOW_LEAST * gained.min()
        scaled = (np.minimum(gained, top) - least) / max(gained.max() - least, _LEAST_RANGE)
        now = len(self._achieved) + 1
        utility = scaled + np.sqrt(_PERIOD * np.log(now) / self._last[known])  # staleness
        duration, preferred = self._duration[known], self._preferred_s()
        with np.errstate(divide="ignore"):
            slower = (preferred / duration) ** self.penalty
        return np.asarray(np.where(duration > preferred, utility * slower, utility))

    def _preferred_s(self) -> float:
        """T: the percentile of the durations known."""
        durations = np.sort(self._duration[self._last > 0])
        if self._percentile >= _WHOLE:
            return np.inf
        place = int(len(durations) * self._percentile / _WHOLE)
        return float(durations[min(place, len(durations) - 1)])

    def observe(self, outcome: Outcome) -> None:
        self._reach(len(outcome.decision.edge_of))
        told = outcome.clients
        known = np.isfinite(told.loss_before) & np.isfinite(told.seconds)
        clients = told.client[known]
        # |B| sqrt(mean of squared losses): of a client's samples we know the mean loss of a batch.
        gained = told.samples[known] * np.abs(told.loss_before[known])
        self._achieved.append(float(gained.sum()))
        self._utility, self._duration = self._utility.copy(), self._duration.copy()
        self._last, self._times = self._last.copy(), self._times.copy()
        self._utility[clients] = gained
        self._duration[clients] = told.seconds[known]
        self._last[clients] = len(self._achieved)
        self._times[clients] += 1
        self._pace()

    def _pace(self) -> None:
        """Relax T where less utility was achieved than in as many rounds before (Alg. 1, Pacer)."""
        rounds, window = len(self._achieved), self.window
        if rounds >= 2 * window and rounds % window == 0:
            before, lately = self._achieved[-2 * window : -window], self._achieved[-window:]
            if sum(before) > sum(lately):
                self._percentile = min(_WHOLE, self._percentile + self.pacer_step)

    def state(self) -> State:
        return {
            "percentile": self._percentile,
            "achieved": np.array(self._achieved),
            "utility": self._utility,
            "duration": self._duration,
            "last": self._last,
            "times": self._times,
        }

    def restore(self, state: State) -> None:
        self._percentile, self._achieved = state["percentile"], state["achieved"].tolist()
        self._utility, self._duration = state["utility"], state["duration"]
        self._last, self._times = state["last"], state["times"]

    def _reach(self, count: int) -> None:
        if len(self._last) < count:
            self._utility, self._duration = np.zeros((2, count))
            self._last, self._times = np.zeros((2, count), dtype=np.int64)
