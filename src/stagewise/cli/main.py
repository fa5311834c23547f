"""The `stagewise` command: its sub-commands, and one line for every mistake."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from stagewise.cli import (
    data_commands,
    deploy_commands,
    doctor_command,
    instance_commands,
    planning_commands,
    serve_commands,
    simulation_commands,
    world_commands,
)
from stagewise.cli.log_lines import log_lines_to, print_status
from stagewise.cli.plugins import CommandGroup
from stagewise.errors import StagewiseError, one_line

USER_MISTAKE = 2
INTERRUPTED = 130

# Typer raises click's errors up to 0.20, which Flower holds on to, and later its own.
_TYPER_ERROR: Any = getattr(typer, "TyperException", None) or import_module("click").ClickException

app = typer.Typer(
    name="stagewise",
    cls=CommandGroup,
    help="Plan and decide who trains in hierarchical federated learning when clients come and go.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(world_commands.scenario_app, name="scenario")
app.command()(world_commands.availability)
app.command()(planning_commands.plan)
app.command()(planning_commands.decide)
app.command()(planning_commands.solve)
app.command()(planning_commands.bound)
app.command()(planning_commands.check)
app.command()(planning_commands.check_plan)
app.command()(planning_commands.check_run)
app.command()(planning_commands.compare)
app.command()(planning_commands.methods)
app.command()(instance_commands.instances)
app.command()(instance_commands.benchmark)
app.command()(simulation_commands.simulate)
app.command()(simulation_commands.resume)
app.command()(simulation_commands.rollback)
app.command()(simulation_commands.report)
app.command()(data_commands.data)
app.command()(doctor_command.doctor)
app.command()(serve_commands.serve)
app.command()(serve_commands.token)
app.add_typer(deploy_commands.deploy_app, name="deploy")


def _version(asked: bool) -> None:
    if asked:
        from stagewise import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _stagewise(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (a check failed), 2 (a mistake) or 130."""
    try:
        with log_lines_to(print_status, "stagewise.loading"):
            status = app(args=arguments, standalone_mode=False)
    except StagewiseError as error:
        return _complain(str(error))
    except simulation_commands.RunInterrupted as interruption:
        _complain(str(interruption))
        return INTERRUPTED
    except _TYPER_ERROR as error:
        # Without a sub-command the help has been printed and there is nothing to add.
        return _complain(error.format_message()) if error.format_message() else USER_MISTAKE
    except typer.Abort:
        status = INTERRUPTED
    except SystemExit:
        # Typer's answer to a broken pipe: the reader went away.
        return USER_MISTAKE
    except OSError as error:
        return _complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except MemoryError:
        return _complain("not enough memory for this input")
    if status == INTERRUPTED:  # Typer has caught the KeyboardInterrupt
        _complain("interrupted; nothing was written")
    return status if isinstance(status, int) else 0


def _complain(message: str) -> int:
    print(f"stagewise: {one_line(message)}", file=sys.stderr)
    return USER_MISTAKE


def run() -> None:
    """The entry point of the installed command."""
    sys.exit(main())


if __name__ == "__main__":
    run()
