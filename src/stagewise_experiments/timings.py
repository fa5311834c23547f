"""How long cells are expected to take, by those that have run."""

from collections.abc import Iterable

import msgspec

from stagewise_experiments.setting import Setting


class Timings:
    """Means over cells that are alike, as far as there are any."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def learn(self, setting: Setting, seconds: float) -> None:
        for kind in kinds_of(setting):
            total, count = self._sums.get(kind, (0.0, 0))
            self._sums[kind] = (total + seconds, count + 1)

    def expected(self, kinds: Iterable[str]) -> float | None:
        """Seconds that a cell of these kinds takes; None where nothing has run."""
        for kind in kinds:
            if kind in self._sums:
                total, count = self._sums[kind]
                return total / count
        return None

    def left(self, cells: Iterable[tuple[str, ...]], workers: int) -> float | None:
        """Seconds that cells of these kinds take on so many workers; None where nothing has run."""
        longest = total = 0.0
        for kinds in cells:
            seconds = self.expected(kinds)
            if seconds is None:
                return None
            longest, total = max(longest, seconds), total + seconds
        return max(longest, total / max(1, workers))


def kinds_of(setting: Setting) -> tuple[str, ...]:
    """Ever larger groups of cells that this one is in: its repetitions with other seeds first."""
    fields = msgspec.to_builtins(msgspec.structs.replace(setting, seed=0, training_seed=None))
    scenario = setting.scenario
    size = (setting.dataset, setting.model, scenario.kind, scenario.clients, scenario.edges)
    trained = setting.dataset if setting.measure == "training" else ""
    return (
        msgspec.json.encode(fields, order="deterministic").decode(),
        f"{setting.measure} {setting.policy} {size} {setting.rounds}",
        f"{setting.measure} {setting.policy} {trained}",
        f"{setting.measure} {trained}",
        "any",
    )
