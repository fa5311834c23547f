"""Rounds sent to TensorBoard or MLflow as they happen; both are optional packages."""

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from stagewise.errors import StagewiseError, one_line, shown
from stagewise.runs.config import RunConfig
from stagewise.runs.records import RoundRecord
from stagewise.world.checks import one_of

LOGGERS = ("tensorboard", "mlflow")


def check_loggers(names: Iterable[str]) -> tuple[str, ...]:
    """`names` if there are such loggers and their packages are installed."""
    known = tuple(names)
    for name in known:
        one_of("logger", name, LOGGERS)
        if find_spec(name) is None:
            raise StagewiseError(
                f"logger = {shown(name)}: its package must be installed: "
                f"pip install 'stagewise-hfl[{name}]'"
            )
    return known


def make_logger(
    name: str, config: RunConfig, out: Path | None
) -> tuple[Callable[[RoundRecord], None], Callable[[], None]]:
    """What gets every round of the run in `out` after it was written down, and what ends that.

    TensorBoard's files go to the run's folder; MLflow's store is the one that `MLFLOW_TRACKING_URI`
    names, or the default one.
    """
    if name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer: Any = SummaryWriter(str("runs" if out is None else out / "tensorboard"))

        def log_round(record: RoundRecord) -> None:
            for figure, value in numbers(record).items():
                writer.add_scalar(figure, value, record.round)
            writer.flush()

        return log_round, writer.close
    import mlflow

    try:
        mlflow.start_run(run_name=config.policy if out is None else out.name)
        mlflow.log_params(_flat(msgspec.to_builtins(config)))
    except Exception as error:  # its store cannot be used, for one of many reasons
        store = shown(mlflow.get_tracking_uri())
        reason = f"{type(error).__name__}: {error}"
        raise StagewiseError(one_line(f"MLFLOW_TRACKING_URI = {store}: {reason}")) from None
    return lambda record: mlflow.log_metrics(numbers(record), step=record.round), mlflow.end_run


def numbers(record: RoundRecord) -> dict[str, float]:
    """The figures of a round by name; those that are not known are left out."""
    fields = msgspec.structs.asdict(record)
    del fields["round"]
    return {name: float(value) for name, value in fields.items() if value is not None}


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": found for inner, found in value.items()}
        else:
            flat[name] = value
    return flat
