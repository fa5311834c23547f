"""What became of a round: who was there, who was asked, and what came back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stagewise.decisions import Decision, save_decisions
from stagewise.deploy.exchange import ClientReport
from stagewise.fates import Fate
from stagewise.world.rounds_file import save_rounds
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import save_scenario


@dataclass(frozen=True, eq=False)
class RoundReport:
    """One round of Flower's, from the roll call to the model."""

    decision: Decision
    refused: Mapping[int, str]
    """Nodes that answered the roll call with something of no use, and why."""
    updates: list[ClientReport]

    def of_fate(self, fate: Fate) -> list[ClientReport]:
        return [update for update in self.updates if update.fate == fate]


def save_reports(scenario: Scenario, reports: Sequence[RoundReport], folder: Path) -> None:
    """Write what `stagewise check` reads: scenario.json, online.jsonl, decisions.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    save_scenario(scenario, folder / "scenario.json")
    save_rounds([report.decision.round for report in reports], folder / "online.jsonl")
    save_decisions([report.decision for report in reports], folder / "decisions.jsonl")
