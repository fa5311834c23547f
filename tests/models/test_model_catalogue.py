"""Models: sizes known from elsewhere, weights from the seed alone, clear errors."""

import pytest

torch = pytest.importorskip("torch")

from stagewise.errors import StagewiseError  # noqa: E402
from stagewise.models import MODELS, build_model, parameter_count  # noqa: E402

COUNTS = [
    ("mnist-cnn", 10, (1, 28, 28), 21_840),
    ("lenet5", 10, (1, 28, 28), 61_706),
    ("cifar-cnn", 10, (3, 32, 32), 576_778),
    ("resnet18", 10, (3, 32, 32), 11_173_962),
    ("resnet18", 100, (3, 32, 32), 11_220_132),
    ("resnet34", 200, (3, 64, 64), 21_379_592),
    ("vgg-light", 15, (3, 64, 64), 36_127),
    ("mlp", 10, (1, 8, 8), 2_410),
]


@pytest.mark.parametrize(("name", "classes", "shape", "count"), COUNTS)
def test_parameter_counts(name, classes, shape, count):
    assert parameter_count(name, classes, shape) == count


@pytest.mark.parametrize("name", MODELS)
def test_output_is_one_number_a_class(name):
    model = build_model(name, 7, (2, 24, 20), seed=1).eval()
    with torch.no_grad():
        assert model(torch.zeros(3, 2, 24, 20)).shape == (3, 7)


def test_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = build_model("mnist-cnn", 10, (1, 28, 28), seed=5).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = build_model("mnist-cnn", 10, (1, 28, 28), seed=5).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    other = build_model("mnist-cnn", 10, (1, 28, 28), seed=6).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_unknown_name_lists_the_known():
    with pytest.raises(StagewiseError, match="model = 'alexnet': must be one of mnist-cnn"):
        build_model("alexnet", 10, (1, 28, 28))


@pytest.mark.parametrize("name", ["mnist-cnn", "lenet5", "cifar-cnn", "vgg-light"])
def test_images_too_small_are_refused(name):
    with pytest.raises(StagewiseError, match=rf"image_shape = \(1, 6, 6\): .*{name}"):
        build_model(name, 10, (1, 6, 6))
