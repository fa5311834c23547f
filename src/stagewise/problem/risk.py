"""Risk: how likely an edge's long-term clients are to leave it short or unbalanced (11a, 11b)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from stagewise.compiled import writable
from stagewise.problem.risk_kernels import (
    EXACT_MEMBERS,
    NO_CUTOFF,
    LabelRows,
    RiskModel,
    edge_risk,
    risk_scratch,
)
from stagewise.randomness import generator
from stagewise.world.checks import one_of
from stagewise.world.scenario import FloatArray, IntArray, Scenario

RiskName = Literal["exact", "sampled", "markov"]
SAMPLES = 1024
_MEASURES = {"markov": 1, "exact": 2, "sampled": 3}
_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class RiskMeasure:
    """One of the three measures, ready to be asked about any set of clients.

    `markov` is (11f) and (11g) as the paper prints them, `exact` the true probability where an edge
    has few enough uncertain clients and `sampled` beyond, `sampled` the share of common random rounds.
    """

    name: RiskName
    scenario: Scenario
    sample_count: int
    seed: int

    @property
    def measure(self) -> int:
        return _MEASURES[self.name]

    @property
    def kld_limit(self) -> float:
        limits = self.scenario.limits
        return limits.kld_max - limits.kld_margin

    @property
    def data_limit(self) -> float:
        limits = self.scenario.limits
        return limits.data_min + limits.data_margin

    @cached_property
    def samples(self) -> npt.NDArray[np.uint64]:
        """Shape (clients, words): bit r is set where the client is online in sampled round r."""
        probability = self.scenario.clients.online_probability
        return _sampled_rounds(probability, self.seed, self.sample_count)

    def samples_for(self, members: int) -> npt.NDArray[np.uint64]:
        """`samples`, or none where edges of at most that many members are never sampled.

        With a million clients drawing the rounds takes long, and is seldom needed.
        """
        if self.name == "markov" or (self.name == "exact" and members <= EXACT_MEMBERS):
            return np.zeros((0, 1), dtype=np.uint64)
        return self.samples

    @cached_property
    def model(self) -> RiskModel:
        """What compiled functions need, without the sampled rounds."""
        clients, target = self.scenario.clients, writable(self.scenario.target)
        return RiskModel(
            measure=self.measure,
            rows=LabelRows(*(writable(part) for part in clients.label_rows)),
            target=target,
            log_target=np.log(target),
            probability=writable(clients.online_probability),
            samples=np.zeros((0, 1), dtype=np.uint64),
            sample_count=self.sample_count,
            kld_limit=float(self.kld_limit),
            data_limit=float(self.data_limit),
        )

    def of(self, members: IntArray) -> tuple[float, float]:
        """(KLD risk, data risk) of an edge whose long-term clients are `members`."""
        scratch = risk_scratch(self.scenario.labels, len(members))
        chosen = np.array(members, dtype=np.int64)
        model = self.model._replace(samples=self.samples_for(len(members)))
        kld_risk, data_risk = edge_risk(model, chosen, len(chosen), NO_CUTOFF, scratch)
        return float(kld_risk), float(data_risk)


def risk_measure(
    scenario: Scenario, name: RiskName = "exact", seed: int = 0, samples: int = SAMPLES
) -> RiskMeasure:
    """The named measure for `scenario`; the sampled rounds depend on `seed` alone."""
    one_of("risk", name, get_args(RiskName))
    return RiskMeasure(name=name, scenario=scenario, sample_count=samples, seed=seed)


def _sampled_rounds(probability: FloatArray, seed: int, samples: int) -> npt.NDArray[np.uint64]:
    """Independent rounds as bits, drawn in blocks so that a million clients fit in memory."""
    words = -(-samples // 64)
    packed = np.zeros((len(probability), words), dtype=np.uint64)
    for block, start in enumerate(range(0, len(probability), _BLOCK)):
        rows = slice(start, start + _BLOCK)
        draws = generator(seed, "risk samples", block).random(
            (len(probability[rows]), 64 * words), dtype=np.float32
        )
        online = draws < probability[rows, None]
        bits = np.packbits(online, axis=1, bitorder="little")
        packed[rows] = bits.view(np.dtype("<u8"))
    return packed
