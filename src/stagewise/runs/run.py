"""A run with its history: what `simulate` returns, and what is read back from its folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stagewise.decisions import DecisionRecord
from stagewise.errors import StagewiseError, TrainingDiverged
from stagewise.model_weights import ModelWeights
from stagewise.plans import load_plan_record
from stagewise.runs.config import RunConfig
from stagewise.runs.directory import DECISIONS, ONLINE, PLAN, RunDirectory
from stagewise.runs.records import RoundRecord
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Run:
    """Training under a policy, with everything that was recorded.

    `simulate`, `resume` and `load_run` make runs; users read them.

    Parameters
    ----------
    config : RunConfig
        What decides the results, all of it.
    scenario : Scenario
        The system.
    online : sequence of Round
        Every round the run goes through, those to come included.
    records : sequence of RoundRecord
        What each complete round gave.
    decisions : sequence of DecisionRecord
        What was decided in each complete round.
    weights : dict of arrays, optional
        The model after the last complete round; None before the first.
    plan_ms : sequence of float
        How long each plan took to make, the first and those ordered later; apart from decisions.
    path : Path, optional
        The run's folder, if it has one.

    Examples
    --------
    >>> import stagewise
    >>> run = stagewise.simulate(dataset="digits", policy="c2e-assoc-only", rounds=2)
    >>> run.finished, len(run.records), list(run.rounds["round"])
    (True, 2, [0, 1])
    """

    config: RunConfig
    scenario: Scenario
    online: Sequence[Round]
    records: Sequence[RoundRecord]
    decisions: Sequence[DecisionRecord]
    weights: ModelWeights | None = field(repr=False)
    plan_ms: Sequence[float] = ()
    path: Path | None = None

    @cached_property
    def rounds(self) -> "pd.DataFrame":
        """A row for each round: the fields of `rounds.jsonl`."""
        try:
            import pandas
        except ImportError:
            raise StagewiseError(
                "run.rounds needs pandas: pip install 'stagewise-hfl[simulate]'"
            ) from None
        columns = list(RoundRecord.__struct_fields__)
        rows = [msgspec.structs.astuple(record) for record in self.records]
        table = pandas.DataFrame(rows, columns=columns)
        return table.astype({"accuracy": float, "loss": float}).set_index("round", drop=False)

    @property
    def finished(self) -> bool:
        """Whether all rounds took place, or the accuracy to stop at was reached."""
        return self.config.is_over([record.accuracy for record in self.records])

    @property
    def accuracy(self) -> float | None:
        """The newest one known."""
        known = [record.accuracy for record in self.records if record.accuracy is not None]
        return known[-1] if known else None

    @property
    def name(self) -> str:
        """What pictures call the run."""
        return self.config.policy if self.path is None else self.path.name

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Accuracy by round, on `axes` or on new ones."""
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots(layout="constrained")[1]
        known = {r.round + 1: r.accuracy for r in self.records if r.accuracy is not None}
        axes.plot(list(known), list(known.values()), label=self.name)
        axes.set(xlabel="round", ylabel="test accuracy", ylim=(0, 1.02))
        return axes

    def __repr__(self) -> str:
        accuracy = "none yet" if self.accuracy is None else f"{self.accuracy:.4f}"
        return (
            f"Run({self.config.policy} on {self.config.dataset}, "
            f"{len(self.records)} of {self.config.rounds} rounds, accuracy {accuracy})"
        )


class RunDiverged(TrainingDiverged):
    """Training diverged in a run; `run` is what came before that round."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


def load_run(path: str | Path) -> Run:
    """Read the run in a folder, whether it is finished, interrupted or still going on.

    Parameters
    ----------
    path : str or Path
        The folder.

    Examples
    --------
    >>> import stagewise
    >>> run = stagewise.simulate(dataset="digits", policy="fedcs", rounds=1, out="a-run")
    >>> stagewise.load_run("a-run").accuracy == run.accuracy
    True
    """
    directory = RunDirectory.open(path)
    config, scenario = directory.config(), directory.scenario()
    decisions = directory.decisions()
    _check_names(decisions, scenario, directory.path / DECISIONS)
    online = directory.online(scenario)
    if len(online) < len(decisions):
        raise StagewiseError(
            f"{directory.path / ONLINE}: has {len(online)} rounds: must have those that took place, "
            f"{len(decisions)}"
        )
    directory.check_undamaged()
    plans = [directory.path / PLAN, *directory.later_plans()]
    return Run(
        config=config,
        scenario=scenario,
        online=online,
        records=directory.rounds(),
        decisions=decisions,
        weights=directory.weights() if directory.complete else None,
        plan_ms=[load_plan_record(plan).plan_ms for plan in plans if plan.exists()],
        path=directory.path,
    )


def _check_names(decisions: Sequence[DecisionRecord], scenario: Scenario, path: Path) -> None:
    clients, edges = scenario.clients.index, scenario.edges.index
    for decision in decisions:
        served = decision.assignment
        known = served.keys() <= clients.keys() and set(served.values()) <= edges.keys()
        if not known or [edge.id for edge in decision.edges] != list(scenario.edges.ids):
            raise StagewiseError(
                f"{path}: round {decision.round}: must be about the scenario's clients and edges"
            )
