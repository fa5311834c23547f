"""Training whose products are bfloat16: near the plain loop in float64, with weights of float32."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from plain_loop import ReferenceLoop  # noqa: E402
from test_training_equations import GROUPS, plain_networks  # noqa: E402
from torch import nn  # noqa: E402
from training_cases import largest_difference, noisy_network, small_task  # noqa: E402

from stagewise.compiled import compiled  # noqa: E402
from stagewise.errors import TrainingDiverged  # noqa: E402
from stagewise.training import Trainer  # noqa: E402
from stagewise.training.bfloat16 import as_array, decoded, encoded  # noqa: E402
from stagewise.training.jobs import TrainingSettings  # noqa: E402


@compiled
def copy_recoded(source, target):
    for i in range(len(source)):
        target[i] = encoded(decoded(source[i]), target)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_numbers_are_rounded_as_pytorch_rounds_them(values):
    array = np.array(values, dtype=np.float32)
    expected = torch.from_numpy(array).bfloat16()
    bits, back = np.empty(len(array), np.int16), np.empty_like(array)
    copy_recoded(array, bits)
    np.testing.assert_array_equal(bits, as_array(expected))
    copy_recoded(bits, back)
    np.testing.assert_array_equal(back, expected.float().numpy())
    copy_recoded(array, back)
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001])
def test_what_is_not_a_number_remains_none(bits):
    back, coded = np.zeros(1, np.float32), np.zeros(1, np.int16)
    copy_recoded(np.array([bits], np.uint32).view(np.float32), coded)
    copy_recoded(coded, back)
    assert np.isnan(back[0])


@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf])
def test_training_that_diverges_is_noticed(wrong):
    task = small_task("mnist-cnn", (1, 28, 28), dtype="bfloat16")
    with Trainer(task) as trainer:
        weights = trainer.initial_weights()
        weights["0.weight"] = np.full_like(weights["0.weight"], wrong)
        with pytest.raises(TrainingDiverged, match="the loss is nan"):
            trainer.train_round(weights, GROUPS, 0)


def changes_of(task):
    """What a round changes, as one vector: by the plain loop in float64, and in bfloat16."""
    reference = ReferenceLoop(task(dtype="float64"))
    before = deepcopy(reference.model.state_dict())
    with torch.random.fork_rng():
        reference.train_round(GROUPS, 0)
    after = reference.model.state_dict()
    with Trainer(task(dtype="bfloat16")) as trainer:
        initial = trainer.initial_weights()
        weights, figures = trainer.train_round(initial, GROUPS, 0)
    for name, array in weights.items():
        assert array.dtype == (np.float32 if after[name].is_floating_point() else np.int64)
    assert np.isfinite(figures.loss_after).all()
    names = [name for name in weights if after[name].is_floating_point()]
    exact = torch.cat([(after[name] - before[name]).flatten() for name in names]).numpy()
    near = np.concatenate([(weights[name] - initial[name]).ravel() for name in names])
    return exact, near


def relative_error(exact, near):
    return np.linalg.norm(near - exact) / np.linalg.norm(exact)


def once(model, shape, **options):
    return partial(small_task, model, shape, local_steps=1, edge_rounds=1, **options)


def by_pytorch(outputs, labels):
    """A loss that has the model trained by PyTorch, in its own mixed precision."""
    return nn.functional.cross_entropy(outputs, labels)


@pytest.mark.parametrize("model", ["mnist-cnn", "lenet5"])
def test_a_step_of_the_fast_path_is_as_near_to_the_plain_loop_as_pytorchs_own(model):
    shape = (1, 28, 28)
    error = relative_error(*changes_of(once(model, shape)))
    assert 1e-3 < error < 0.1
    assert error < 1.2 * relative_error(*changes_of(once(model, shape, loss=by_pytorch)))


@pytest.mark.parametrize(
    ("model", "shape"), [("cifar-cnn", (3, 32, 32)), ("vgg-light", (3, 16, 16))]
)
def test_a_step_of_other_models_is_near_the_plain_loop(model, shape):
    assert 1e-3 < relative_error(*changes_of(once(model, shape))) < 0.1


def test_models_without_convolutions_or_with_other_layers_are_trained():
    assert relative_error(*changes_of(partial(small_task, "mlp"))) < 1e-5
    assert relative_error(*changes_of(partial(small_task, noisy_network))) < 0.1


@settings(max_examples=25)
@given(plain_networks())
def test_plain_networks_are_near_the_plain_loop(case):
    shape, network = case
    # A pool whose two largest are nearly equal may take the other one.
    assert relative_error(*changes_of(once(lambda: deepcopy(network), shape))) < 0.3


@pytest.mark.parametrize(("model", "shape"), [("lenet5", (1, 28, 28)), ("vgg-light", (3, 16, 16))])
def test_models_are_evaluated_in_single_precision(model, shape):
    with (
        Trainer(small_task(model, shape, dtype="bfloat16")) as half,
        Trainer(small_task(model, shape, dtype="float32")) as single,
    ):
        weights, _ = half.train_round(half.initial_weights(), GROUPS, 0)
        assert half.evaluate(weights) == single.evaluate(weights)
        again, _ = half.train_round(half.initial_weights(), GROUPS, 0)
    assert largest_difference(weights, again) == 0


def test_small_networks_are_still_trained_in_batches():
    task = small_task("mnist-cnn", (1, 28, 28), dtype="bfloat16")
    assert TrainingSettings.of(task).network is not None
