"""Commands on the instances that everybody has: `stagewise instances` and `stagewise benchmark`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stagewise
from stagewise.cli.options import Json, Seed, listed
from stagewise.cli.tables import print_json, print_table
from stagewise.errors import StagewiseError, shown

if TYPE_CHECKING:
    from stagewise.instances.benchmark import Score
    from stagewise.instances.catalogue import BenchmarkInstance

Sizes = Annotated[
    str | None, typer.Option(help="tiny, tight, paper, medium, large, huge, real, or several.")
]
_SMALL = "tiny,tight,paper,medium"


def instances(
    name: Annotated[str | None, typer.Argument(help="One to write down.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for scenario.json and rounds.jsonl."),
    ] = None,
    size: Sizes = None,
    json: Json = False,
) -> None:
    """The instances by name, with the best that is known of each; or one of them as files."""
    if name is not None:
        if output is None:
            raise StagewiseError(f"{name}: must have -o, the folder to write it to")
        scenario, rounds = stagewise.load_instance(name).make()
        output.mkdir(parents=True, exist_ok=True)
        stagewise.save_scenario(scenario, output / "scenario.json")
        stagewise.save_rounds(rounds, output / "rounds.jsonl")
        return
    from stagewise.instances.best_known import best_known

    chosen = _of_sizes(size)
    if json:
        print_json(
            [
                {"name": one.name, "size": one.size, "rounds": one.rounds, "sha256": one.sha256}
                | {"known": best_known(one.name)}
                for one in chosen
            ]
        )
        return
    lines = []
    for one in chosen:
        known = best_known(one.name)
        values = [k.value for k in known if k.value is not None]
        gaps = [k.gap for k in known if k.gap is not None]
        found_by = sorted({k.by for k in known if k.by})
        lines.append(
            [
                one.name,
                one.size,
                str(one.rounds),
                f"{sum(values) / len(values):.4g}" if values else "",
                f"{100 * max(gaps):.3f}%" if gaps else "",
                ", ".join(found_by),
                ", ".join(one.files),
            ]
        )
    headings = ["name", "size", "rounds", "best known cost", "largest gap to the bound", "found by"]
    print_table([*headings, "needs"], lines, left=(0, 1, 5, 6))


def benchmark(
    policy: Annotated[str, typer.Argument(help="A name of `stagewise methods`.")],
    size: Sizes = None,
    names: Annotated[
        str | None, typer.Option("--instances", help="Names, in place of --size.")
    ] = None,
    seed: Seed = 0,
    seconds: Annotated[float | None, typer.Option(help="Time of one decision.")] = None,
    json: Json = False,
) -> None:
    """A policy's score card: cost over the best known and over the bound, feasibility, times."""
    if names is not None and size is not None:
        raise StagewiseError("--instances, --size: must be only one of them")
    chosen = listed(names) if names else [one.name for one in _of_sizes(size or _SMALL)]

    def told(score: "Score") -> None:
        typer.echo(f"{score.instance} done", err=True)

    scores = stagewise.benchmark(policy, chosen, seed=seed, seconds=seconds, progress=told)
    if json:
        print_json(scores)
        return
    from stagewise.instances.score_card import HEADINGS, row_of

    title = f"{policy}, Stagewise {stagewise.__version__}"
    print_table(list(HEADINGS), [row_of(score) for score in scores], title)


def _of_sizes(sizes: str | None) -> "list[BenchmarkInstance]":
    """The instances of these sizes, with commas between; all without any."""
    every = [stagewise.load_instance(name) for name in stagewise.instance_names()]
    if sizes is None:
        return every
    known = list(dict.fromkeys(one.size for one in every))
    for size in listed(sizes):
        if size not in known:
            raise StagewiseError(f"--size = {shown(size)}: must be one of {', '.join(known)}")
    return [one for one in every if one.size in listed(sizes)]
