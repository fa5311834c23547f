"""docs/selection.md: its programs run, its tables name everything, and its selector goes everywhere."""

import re
from pathlib import Path

import numpy as np
import pytest

import stagewise
from stagewise import plug_ins
from stagewise.cli.main import main
from stagewise.deploy.status import read_status
from stagewise.selection.catalogue import associator_names, selector_names
from stagewise.testing import assert_conforms

PAGE = Path(__file__).parents[2] / "docs" / "selection.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def names():
    """What the page's programs define, one after the other."""
    pytest.importorskip("torch")
    found: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), found)
    return found


@pytest.mark.parametrize(
    ("heading", "listed"), [("Selectors", selector_names()), ("Associators", associator_names())]
)
def test_its_tables_name_all(heading, listed):
    _, _, section = TEXT.partition(f"\n## {heading}\n")
    rows = re.findall(r"^\| `([\w-]+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert rows == listed


def test_its_programs_run(names):
    assert names["run"].finished
    assert len(names["decisions"]) == 3


def test_its_first_selector_has_ten_lines():
    [program] = re.findall(r"^class RareLabels.*?^```", TEXT, re.DOTALL | re.MULTILINE)
    lines = [line for line in program.splitlines()[:-1] if line]
    assert len(lines) == 7


def test_its_selector_conforms(names):
    assert_conforms(names["hungry"], seeds=1)


def test_its_selector_asks_again_whose_loss_is_unknown(names):
    """Where nothing is trained every loss is NaN, and nobody has gained more or less than others."""
    scenario = stagewise.generate.numeric(clients=12, edges=1, seed=0)
    nearest = stagewise.make_associator("nearest", scenario)
    policy = stagewise.Compose(names["Hungry"](), nearest)
    first, second = stagewise.solve(scenario, 2 * [np.ones(12, dtype=bool)], policy)
    assert first.assignment == second.assignment


class Point:
    name = "hungry"

    def __init__(self, thing):
        self.thing = thing

    def load(self):
        return self.thing


@pytest.fixture
def installed(names, monkeypatch):
    def points(*, group):
        return [Point(names["Hungry"])] if group == "stagewise.selectors" else []

    monkeypatch.setattr(plug_ins, "entry_points", points)


@pytest.mark.parametrize("dataset", ["digits", "mnist5k"])
def test_it_trains_by_name(installed, tmp_path, dataset):
    out = str(tmp_path / "run")
    quick = ["--dataset", dataset, "--rounds", "2", "--model", "mlp"]
    assert main(["simulate", "--policy", "hungry+pool", "--out", out, *quick]) == 0


def test_it_is_deployed_by_name(installed, tmp_path):
    out = tmp_path / "run"
    quick = ["--design", "in-process", "--dataset", "digits", "--rounds", "2"]
    assert main(["deploy", "up", "--out", str(out), "--policy", "hungry+nearest", *quick]) == 0
    assert read_status(out).phase == "finished"
