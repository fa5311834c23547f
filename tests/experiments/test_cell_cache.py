"""Cells kept under their keys: a key for every input, and nothing but what was put comes back."""

import json
import shutil
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import msgspec
import pytest
from experiment_cases import report, small

import stagewise
import stagewise_experiments
from stagewise_experiments import code_version as versions
from stagewise_experiments import inputs, worker
from stagewise_experiments.cache import Cache
from stagewise_experiments.cells import cells_of
from stagewise_experiments.code_version import code_version, digest_of, policy_version
from stagewise_experiments.inputs import MISSING, data_of, fingerprint
from stagewise_experiments.rules import setting_fields
from stagewise_experiments.setting import Setting, make_setting
from stagewise_experiments.worker import key_of, request_of

BASE: Setting = cells_of(small(), "quick")[0].setting

OTHER = {
    "scenario.regime": "literal",
    "policy": "fedcs",
    "seed": 5,
    "training_seed": 7,
    "dataset": "fashion-mnist",
    "model": "lenet5",
    "dtype": "bfloat16",
    "risk": "markov",
    "participation.model": "markov",
    "scenario.kind": "eua",
    "scenario.task": "cifar10",
    "scenario.weights": "random",
    "scenario.p_max": 0.95,
    "target_accuracy": 0.9,
    "learning_rate": 0.5,
    "scenario.batch_fraction": 0.5,
    "image_size": 32,
    "test_samples": 10,
    "replan_every": 3,
}


def changed(path: str, setting: Setting = BASE) -> Setting:
    """The setting with one field changed."""
    fields = msgspec.to_builtins(setting)
    *tables, last = path.split(".")
    table = fields
    for name in tables:
        table = table[name]
    value = table[last]
    step = 1 if isinstance(value, int) else 0.01
    other = not value if isinstance(value, bool) else OTHER.get(path) or value + step
    table[last] = other
    return make_setting(fields, "test")


@pytest.mark.parametrize("path", [*setting_fields(), "policy", "seed"])
def test_every_field_has_a_part_in_the_key(path):
    assert key_of(request_of(changed(path))) != key_of(request_of(BASE))


def test_equal_settings_have_one_key():
    again = msgspec.json.decode(msgspec.json.encode(BASE), type=Setting)
    assert key_of(request_of(again)) == key_of(request_of(BASE))


def test_the_code_version_has_a_part_in_the_key(monkeypatch):
    before = key_of(request_of(BASE))
    monkeypatch.setattr(worker, "code_version", lambda: "another")
    assert key_of(request_of(BASE)) != before


@pytest.mark.parametrize(
    "name", ["own", "own:another-reading", "own+nearest", "random-k+own,phi=2"]
)
def test_the_sources_of_a_plug_in_have_a_part_in_the_key(tmp_path, monkeypatch, name):
    points = EntryPoints([EntryPoint("own", "own_policies.cli.choose:make", "stagewise.policies")])
    monkeypatch.setattr(versions, "entry_points", lambda *, group: points)
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "own_policies" / "cli" / "choose.py"
    source.parent.mkdir(parents=True)
    (tmp_path / "own_policies" / "__init__.py").touch()
    own = msgspec.structs.replace(BASE, policy=name)
    keys = []
    for text in ("one", "two", "one"):
        source.write_text(f"# {text}\n")
        policy_version.cache_clear()
        keys.append(key_of(request_of(own)))
    policy_version.cache_clear()
    assert keys[0] == keys[2] != keys[1]
    assert policy_version("pool-flexible") is None


def test_the_device_counts_where_something_is_trained():
    assert key_of(request_of(BASE, "cuda")) == key_of(request_of(BASE, "cpu"))
    training = msgspec.structs.replace(BASE, measure="training")
    assert key_of(request_of(training, "cuda")) != key_of(request_of(training, "cpu"))


def test_the_data_have_a_part_in_the_key(tmp_path, monkeypatch):
    trace = changed("participation.model")
    trace = msgspec.structs.replace(
        trace, participation=msgspec.structs.replace(trace.participation, model="trace")
    )
    assert data_of(trace) == ["availability-trace"]
    keys = []
    for number, content in enumerate([None, b"one", b"two", b"one"]):
        root = tmp_path / str(number)
        file = root / inputs.TRACE_FILE
        file.parent.mkdir(parents=True)
        if content is not None:
            file.write_bytes(content)
        monkeypatch.setenv("STAGEWISE_DATA", str(root))
        assert (fingerprint("availability-trace") == MISSING) == (content is None)
        keys.append(key_of(request_of(trace)))
    assert len(set(keys)) == 3
    assert keys[1] == keys[3]  # wherever the data are


def test_folders_of_images_are_told_apart_by_names_and_contents(tmp_path, monkeypatch):
    seen = []
    for number, (name, content) in enumerate([("a", b"1"), ("b", b"1"), ("a", b"2"), ("a", b"1")]):
        image = tmp_path / str(number) / "aid15" / "beach" / f"{name}.png"
        image.parent.mkdir(parents=True)
        image.write_bytes(content)
        monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path / str(number)))
        seen.append(fingerprint("aid15"))
    assert len(set(seen)) == 3
    assert seen[0] == seen[3]


def test_which_data_a_cell_reads():
    assert data_of(BASE) == []  # sizes of MNIST are the paper's
    assert data_of(msgspec.structs.replace(BASE, measure="training")) == ["mnist"]
    assert data_of(msgspec.structs.replace(BASE, dataset="aid15")) == ["aid15"]
    assert data_of(changed("scenario.kind")) == ["eua"]


def test_what_is_put_comes_back(tmp_path):
    cache, request = Cache(tmp_path), request_of(BASE)
    key, done = key_of(request), report([1, 2.5, None, {"deep": True}])
    assert cache.get(key) is None
    cache.put(key, request, done)
    assert Cache(tmp_path).get(key) == done
    assert list(cache.timings()) == [(BASE, 1.0)]


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "changed"])
def test_a_damaged_file_is_as_good_as_none(tmp_path, damage):
    cache, request = Cache(tmp_path), request_of(BASE)
    key = key_of(request)
    cache.put(key, request, report(1))
    (path,) = (tmp_path / "cells").iterdir()
    content = path.read_bytes()
    record = json.loads(content)
    record["order"]["setting"]["seed"] += 1
    path.write_bytes(
        {
            "empty": b"",
            "cut": content[: len(content) // 2],
            "other": b'{"format": "stagewise-cell/2"}',
            "changed": json.dumps(record).encode(),
        }[damage]
    )
    assert cache.get(key) is None
    list(cache.timings())
    cache.put(key, request, report(1))
    assert cache.get(key) == report(1)


def test_the_code_version_follows_what_decides_results(tmp_path):
    packages = [Path(module.__file__).parent for module in (stagewise, stagewise_experiments)]
    copies = [tmp_path / package.name for package in packages]
    for package, copy in zip(packages, copies, strict=True):
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert digest_of(*copies) == code_version() == digest_of(*packages)

    def after_change(name: str) -> str:
        path = tmp_path / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n# another\n")
        digest = digest_of(*copies)
        path.write_bytes(before)
        return digest

    for name in ("plan_b/ccu.py", "training/kernels.py", "decisions.py"):
        assert after_change(f"stagewise/{name}") != code_version()
    for name in ("setting.py", "measures/decisions.py"):
        assert after_change(f"stagewise_experiments/{name}") != code_version()
    for name in ("cli/main.py", "report/page.py"):
        assert after_change(f"stagewise/{name}") == code_version()
    for name in ("page.py", "runner.py"):
        assert after_change(f"stagewise_experiments/{name}") == code_version()
    for copy in copies:
        (copy / "measures").mkdir(exist_ok=True)
        (copy / "measures" / "extra.py").write_text("")
        assert digest_of(*copies) != code_version()
        (copy / "measures" / "extra.py").unlink()
