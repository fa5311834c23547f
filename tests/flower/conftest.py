"""A run's identity, without which Flower makes no messages."""

import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install 'stagewise-hfl[deploy]'")


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
