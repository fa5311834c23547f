"""Commands of a deployment: `stagewise deploy up`, `status` and `init`."""

import contextlib
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli.deploy_init_command import DEPLOYED, init, need_flower
from stagewise.cli.deploy_site_commands import SITE_COMMANDS
from stagewise.cli.options import METRICS_PORT, REPLANNING, DataDir, Json, option, with_options
from stagewise.cli.simulation_commands import interruptible, print_outcome, rollback
from stagewise.cli.tables import print_json, print_table
from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise.deploy.starting import StartRecord
    from stagewise.deploy.status import Status

WATCH_S = 1.0

deploy_app = typer.Typer(
    help="Train for real: cloud, edges and clients as processes.", no_args_is_help=True
)
deploy_app.command()(init)
deploy_app.command()(rollback)
for command in SITE_COMMANDS:
    deploy_app.command()(command)


@deploy_app.command()
@with_options(
    {
        "site": option(str, None, "Instead: the cloud's folder, by `deploy init`."),
        "clients": option(int, None, "Number of clients [8]."),
        "edges": option(int, None, "Number of edges [2]."),
        "design": option(
            str, None, "H: edges are servers; F: groups at the cloud; in-process [H]."
        ),
        "rounds": option(int, None, "Number of rounds [10]."),
        "data_dir": (DataDir, None),
        **DEPLOYED,
        "remedy": option(
            str,
            None,
            "An edge cannot keep its limits: lend it clients (default), drop it, or reweight it.",
        ),
        "aggregator": option(
            str,
            None,
            "mean (default), plain-mean (nothing is judged), trimmed-mean, median or multi-krum.",
        ),
        "quarantine_rounds": option(
            int, None, "Rounds without a client whose updates were rejected twice [10]."
        ),
        "keep_checkpoints": option(int, None, "How many of the last checkpoints to keep [3]."),
        "deadline_factor": option(
            float, None, "A round may take so many times what it should [2]."
        ),
        "replan_every": REPLANNING["replan_every"],
        "polls": option(int, None, "How often to ask who is there before Plan A [2]."),
        "measured_costs": option(
            bool, None, "Decide with the delays that were measured.", "--measured-costs"
        ),
        "metrics_port": METRICS_PORT,
    }
)
def up(
    out: Annotated[str, typer.Option(help="Folder of the run; the same command goes on with it.")],
    local: Annotated[
        bool, typer.Option("--local", help="New: all processes on this machine, on loopback.")
    ] = False,
    **options: Any,
) -> None:
    """Start everything, train to the last round, end everything."""
    if local and options["site"] is not None:
        raise StagewiseError("local: must not be given with a site, which is on other machines")
    need_flower()
    go_on = f"interrupted, all processes ended; to go on: stagewise deploy up --out {out}"
    with interruptible(out, go_on):
        from stagewise.deploy.options import make_options
        from stagewise.deploy.up import up as start
        from stagewise.runs.metrics import RunMetrics

        port = options.pop("metrics_port")
        metrics = None if port is None else RunMetrics(port)
        asked = make_options(local=local or None, **options)
        run = start(out, asked, show_progress=True, metrics=metrics)
    print_outcome(run, out)


@deploy_app.command()
def status(
    directory: Annotated[str, typer.Argument(help="Folder of a deployment's run.")],
    as_json: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C or the end.")
    ] = False,
) -> None:
    """Who is up, the round under way, who trains where, and what became of every update."""
    if not watch:
        _show(directory, as_json)
        return
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            if not as_json:
                typer.echo("\x1b[H\x1b[2J", nl=False)  # an empty screen
            if not _show(directory, as_json):
                return
            time.sleep(WATCH_S)


def _show(directory: str, as_json: bool) -> bool:
    """Print the status once; whether there is anything more to come."""
    need_flower()
    from stagewise.deploy.starting import read_start
    from stagewise.deploy.status import read_status

    start = read_start(directory)
    if start is not None:
        if as_json:
            print_json(start)
        else:
            print("\n".join(_start_lines(start)))
        return True
    found = read_status(directory)
    if as_json:
        print_json(found)
    else:
        print("\n".join(_lines(found)))
        print_table(*_table(found))
    return found.running


def _start_lines(start: "StartRecord") -> list[str]:
    from stagewise.deploy.starting import listed

    lines = [f"{start.phase}, for {time.time() - start.began:.0f} s; no round yet"]
    if start.links:
        answered = start.links - len(start.missing)
        lines.append(f"links: {answered} of {start.links} have answered")
        lines += [f"missing: {listed(start.missing)}"] if start.missing else []
    lines += [f"process {pid}: {name}" for name, pid in start.processes.items()]
    return lines


def _lines(found: "Status") -> list[str]:
    doing = found.phase if found.running or found.phase == "finished" else "not running"
    doing += f" for {found.phase_s:.0f} s" if found.running else ""
    up = [edge for edge, there in found.edges.items() if there]
    lines = [
        f"design {found.design}, {doing}; {found.complete} of {found.rounds} rounds complete",
        f"edges up: {len(up)} of {len(found.edges)}{_missing(found.edges)}",
        f"clients up: {sum(map(bool, found.clients.values()))} of {len(found.clients)}"
        f"{_missing(found.clients)}",
    ]
    word = "trains" if found.phase == "training" and found.running else "trained last"
    lines += [f"{word}: {edge}: {', '.join(members)}" for edge, members in found.trains.items()]
    fates = ", ".join(f"{count} {fate}" for fate, count in found.fates.items())
    sums = "adds up" if found.adds_up else "DOES NOT ADD UP"
    lines.append(f"updates: {found.asked} asked for: {fates}; {sums}")
    lines += [f"  {line}" for line in found.not_counted[-10:]]
    running = [name for name, each in found.processes.items() if each.pid is not None]
    if found.running and running:
        lines.append(f"processes on this machine: {len(running)} of {len(found.processes)} run")
        lines += [f"  {line}" for line in [*found.troubles, *found.refused[-10:]]]
    if found.backhaul is not None:
        ratio = found.backhaul
        lines.append(
            f"cloud's bytes, H over F: {ratio.measured:.3f} measured, {ratio.predicted:.3f} by the "
            f"number of models ({ratio.rounds} rounds without a fault)"
        )
    return lines


def _missing(there: "dict[str, bool] | dict[str, list[str]]") -> str:
    gone = [name for name, found in there.items() if not found]
    return f", without {', '.join(gone)}" if gone else ""


def _table(found: "Status") -> tuple[list[str], list[list[str]]]:
    headings = [
        *("round", "accuracy", "up", "serve", "counted", "not"),
        *("delay s", "expected", "predicted", "deadline"),
        *("energy J", "predicted", "cloud kB", "predicted", "clients kB"),
    ]
    lines = [
        [
            f"{line.round}{'' if line.feasible else '*'}",
            "" if line.accuracy is None else f"{line.accuracy:.4f}",
            f"{line.edges} + {line.clients}",
            str(line.serving),
            str(line.fates["counted"]),
            str(sum(line.fates.values()) - line.fates["counted"]),
            f"{line.delay_s:.1f}",
            f"{line.expected_delay_s:.1f}",
            f"{line.predicted_delay_s:.2f}",
            f"{line.deadline_s:.1f}",
            f"{line.energy_j:.2f}",
            f"{line.predicted_energy_j:.2f}",
            f"{line.cloud_bytes / 1000:.1f}",
            f"{line.predicted_cloud_bytes / 1000:.1f}",
            f"{line.client_bytes / 1000:.1f}",
        ]
        for line in found.history
    ]
    return headings, lines
