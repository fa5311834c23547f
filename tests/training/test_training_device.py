"""Training on a device: the path itself on the CPU, device mix-ups on one that is made up, errors."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training_cases import (  # noqa: E402
    assert_like_figures,
    groups_of,
    largest_difference,
    noisy_network,
    small_task,
)

from stagewise.errors import StagewiseError  # noqa: E402
from stagewise.training import Trainer, module_backend  # noqa: E402
from stagewise.training import jobs as jobs_module  # noqa: E402
from stagewise.training.backends import make_backend  # noqa: E402
from stagewise.training.data import TrainingData  # noqa: E402
from stagewise.training.device import device_of  # noqa: E402
from stagewise.training.jobs import EvaluateJob, TrainingSettings, TrainJob, WeightBuffers  # noqa: E402
from stagewise.training.layout import WeightLayout  # noqa: E402
from stagewise.training.module_backend import ModuleBackend  # noqa: E402

META = torch.device("meta")


@pytest.fixture
def cuda_device(monkeypatch):
    """PyTorch says that there is a CUDA device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.parametrize(
    ("model", "shape"),
    [("mnist-cnn", (1, 28, 28)), ("mlp", (1, 8, 8)), (noisy_network, (1, 8, 8))],
)
def test_the_path_of_devices_gives_the_same_on_the_cpu(model, shape, monkeypatch):
    task = small_task(model, shape)
    groups = groups_of([0, 1, 3], [4, 6])
    with Trainer(task) as trainer:
        start = trainer.initial_weights()
        expected, expected_figures = trainer.train_round(start, groups, 2)
        score = trainer.evaluate(expected)
    # With no device taken for the CPU, every model takes the path that devices take.
    monkeypatch.setattr(jobs_module, "CPU", None)
    with Trainer(task) as trainer:
        assert isinstance(trainer._pool._backend, ModuleBackend)
        assert largest_difference(start, trainer.initial_weights()) == 0
        weights, figures = trainer.train_round(start, groups, 2)
        again = trainer.evaluate(weights)
    assert largest_difference(expected, weights) < 1e-12
    assert_like_figures(figures, expected_figures)
    assert largest_difference(start, weights) > 1e-3
    assert again.accuracy == score.accuracy
    assert again.loss == pytest.approx(score.loss, abs=1e-12)
    assert all(type(array) is np.ndarray for array in weights.values())


@pytest.fixture
def without_values(monkeypatch):
    """PyTorch's device `meta` knows shapes and devices and no values; it answers with some."""
    monkeypatch.setattr(torch.Tensor, "item", lambda self: 0.0 if self.device == META else np.nan)
    monkeypatch.setattr(torch.Tensor, "__int__", lambda self: 0)
    monkeypatch.setattr(module_backend, "_norm", lambda after, before, length: 0.0)


def train_and_evaluate(task):
    """A client's part of a round and the test set, on a device whose mixing with others is an error."""
    settings = replace(TrainingSettings.of(task), network=None, device=META)
    backend = make_backend(settings, TrainingData.of(task))
    layout = WeightLayout(settings.build(), settings.dtype)
    counters = torch.zeros(1, layout.counter_length, dtype=torch.int64)
    # What has no value cannot be handed back to main memory.
    buffers = WeightBuffers(
        torch.zeros(1, layout.length, dtype=settings.dtype),
        torch.zeros(1, layout.length, dtype=settings.dtype, device=META),
        counters,
        counters.to(META),
    )
    backend.train(TrainJob((0,), (0,), (0,), 0, 0), buffers)
    backend.evaluate(EvaluateJob(0, 137), buffers)
    return backend


@pytest.mark.parametrize("model", ["mlp", noisy_network, "resnet18"])
@pytest.mark.usefixtures("without_values")
def test_nothing_is_left_on_the_wrong_device(model):
    backend = train_and_evaluate(small_task(model, momentum=0.9, weight_decay=0.01))
    assert backend._vector.device == META
    assert all(part.device == META for part in backend._model.state_dict().values())


@pytest.mark.usefixtures("without_values")
def test_what_is_left_behind_is_noticed(monkeypatch):
    """The test above can fail: it does with weights that stay in main memory."""
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *shape, device=None, **rest: zeros(*shape, **rest))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        train_and_evaluate(small_task("mlp"))


@pytest.mark.parametrize("name", ["gpu", "CUDA", "cpu:0", "cuda:", "cuda:-1", "cuda:x", "meta", ""])
def test_unknown_devices_are_refused(name):
    with pytest.raises(StagewiseError, match="must be 'cpu', 'cuda', 'cuda:N' or 'mps'"):
        device_of(name)


def test_devices_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "cuda:0"):
        with pytest.raises(
            StagewiseError, match=f"device = '{name}': must be one .* 0 CUDA devices"
        ):
            small_task(device=name)
    with pytest.raises(StagewiseError, match="device = 'mps': must be one that PyTorch finds"):
        small_task(device="mps")


@pytest.mark.usefixtures("cuda_device")
def test_a_cuda_device_beyond_the_last_is_refused():
    assert device_of("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(StagewiseError, match=r"device = 'cuda:1': .* finds 1 CUDA devices"):
        device_of("cuda:1")


@pytest.mark.usefixtures("cuda_device")
def test_a_device_has_one_worker():
    with pytest.raises(StagewiseError, match="workers = 2: must be 1 on the device cuda"):
        Trainer(small_task(device="cuda"), workers=2)


def test_mps_trains_in_float32(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(
        StagewiseError, match="dtype = 'float64': must be float32 on the device mps"
    ):
        small_task(device="mps")
    assert small_task(device="mps", dtype="float32").device == "mps"


@pytest.mark.usefixtures("cuda_device")
def test_only_the_cpu_trains_several_clients_at_once():
    task = small_task("mnist-cnn", (1, 28, 28))
    assert TrainingSettings.of(task).network is not None
    on_cuda = TrainingSettings.of(replace(task, device="cuda:0"))
    assert (on_cuda.network, on_cuda.device) == (None, torch.device("cuda", 0))
