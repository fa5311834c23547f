"""What `pool-to-target` spends to a target beside all methods of `fig-to-target`, from the results kept.

    python benchmarks/to_target.py [--results docs/results/full]

It was run later than they were, in `fig-label-weights`, on the same seeds and with some of the same
methods: if their runs are the same in both, to the last digit of every round, all runs can be paired.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from stagewise_experiments.claims import comparison_text
from stagewise_experiments.results import CellResult, Result, load_result
from stagewise_experiments.series import Series
from stagewise_experiments.verdicts import judge_claim

OURS = "pool-to-target"


def together(earlier: Result, later: Result) -> tuple[Result, int]:
    """The cells of both, and how many runs are in both; an error where one of these differs."""
    known = {_place(cell): cell for cell in earlier.cells}
    shared = 0
    for cell in later.cells:
        twin = known.setdefault(_place(cell), cell)
        if twin is not cell:
            shared += 1
            if _figures(twin) != _figures(cell):
                raise SystemExit(f"{_place(cell)}: is another run in {later.experiment.id}")
    policies = [OURS, *earlier.experiment.policies]
    experiment = msgspec.structs.replace(earlier.experiment, policies=policies)
    return msgspec.structs.replace(
        earlier, experiment=experiment, cells=list(known.values())
    ), shared


def _place(cell: CellResult) -> tuple[Any, ...]:
    return cell.policy, *sorted(cell.point.items()), cell.seed


def _figures(cell: CellResult) -> Any:
    rounds = (cell.outputs or {})["rounds"]
    return cell.setting, [(one["accuracy"], one["objective"], one["clients"]) for one in rounds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results/full"))
    folder = parser.parse_args().results
    names = ("fig-to-target", "fig-label-weights")
    earlier, later = (load_result(folder / name / "result.json") for name in names)
    result, shared = together(earlier, later)
    print(f"{shared} runs are in both and the same")
    series = Series(result)
    others = tuple(policy for policy in series.policies if policy != OURS)
    for quantity in ("cost_to_target", "cost_to_hard_target"):
        print(f"\n{quantity}: over all worlds")
        for other in others:
            pairs = [((OURS, point), (other, point)) for point in series.points]
            found = series.compare(quantity, pairs)
            print("  " + comparison_text(found, quantity, False, f"of {other}'s", f" over {other}"))
        claim = msgspec.structs.replace(
            later.experiment.claims[0], quantity=quantity, at_most=others
        )
        outcomes = Counter(finding.holds for finding in judge_claim(series, claim).found)
        print(
            f"  in single worlds: {outcomes[True]} no more, {outcomes[None]} undecided, "
            f"{outcomes[False]} more"
        )


if __name__ == "__main__":
    main()
