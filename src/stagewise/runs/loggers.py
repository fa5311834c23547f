"""Rounds sent to TensorBoard or MLflow as they happen; both are optional packages."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.runs.config import RunConfig
from stagewise.runs.records import RoundRecord


class Logger(Protocol):
    """Gets every round of a run, after it has been written down."""

    def log_round(self, record: RoundRecord) -> None: ...

    def close(self) -> None: ...


class TensorBoardLogger:
    """Writes event files that `tensorboard --logdir` shows."""

    def __init__(self, folder: str | Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder))

    def log_round(self, record: RoundRecord) -> None:
        for name, value in numbers(record).items():
            self._writer.add_scalar(name, value, record.round)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class MLflowLogger:
    """Writes to the MLflow store that `MLFLOW_TRACKING_URI` names, or to the default one."""

    def __init__(self, config: RunConfig, run_name: str) -> None:
        import mlflow

        self._mlflow: Any = mlflow
        mlflow.start_run(run_name=run_name)
        mlflow.log_params(_flat(msgspec.to_builtins(config)))

    def log_round(self, record: RoundRecord) -> None:
        self._mlflow.log_metrics(numbers(record), step=record.round)

    def close(self) -> None:
        self._mlflow.end_run()


LOGGERS = ("tensorboard", "mlflow")


def check_loggers(names: Iterable[str]) -> tuple[str, ...]:
    """`names` if there are such loggers and their packages are installed."""
    known = tuple(names)
    for name in known:
        if name not in LOGGERS:
            raise StagewiseError(f"logger = {shown(name)}: must be one of {', '.join(LOGGERS)}")
        if find_spec(name) is None:
            raise StagewiseError(
                f"logger = {shown(name)}: its package must be installed: "
                f"pip install 'stagewise-hfl[{name}]'"
            )
    return known


def make_logger(name: str, config: RunConfig, out: Path | None) -> Logger:
    """The logger called `name` for a run in the folder `out`."""
    if name == "tensorboard":
        return TensorBoardLogger("runs" if out is None else out / "tensorboard")
    return MLflowLogger(config, config.policy if out is None else out.name)


def numbers(record: RoundRecord) -> dict[str, float]:
    """The figures of a round by name; those that are not known are left out."""
    fields = msgspec.structs.asdict(record)
    del fields["round"]
    return {name: float(value) for name, value in fields.items() if value is not None}


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    tables = {name: value for name, value in fields.items() if isinstance(value, dict)}
    flat = {name: value for name, value in fields.items() if name not in tables}
    for table, inner in tables.items():
        flat |= {f"{table}.{name}": value for name, value in inner.items()}
    return flat
