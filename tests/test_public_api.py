"""`import stagewise`: what it offers, that the example in its docstring runs, and how light it is."""

import subprocess
import sys

import pytest

import stagewise
from helpers import random_scenario
from stagewise.world.scenario import Limits

HEAVY = ("numpy", "numba", "scipy", "sklearn", "torch", "llvmlite", "pandas", "matplotlib")


def test_the_three_lines_of_the_docstring(tmp_path):
    """Run as they stand, with a scenario file and a list of who is online."""
    limits = Limits(kld_max=0.6, data_min=60, kld_risk=0.6, data_risk=0.6)
    path = tmp_path / "s.json"
    stagewise.save_scenario(random_scenario(1, 10, 2, limits=limits), path)
    _, _, example = stagewise.__doc__.partition("\n\n")
    lines = [line for line in example.splitlines() if line.strip()]
    assert len(lines) == 3
    names = {"stagewise": stagewise, "online": ["c0", "c1", "c3"]}
    exec("\n".join(lines).replace('"s.json"', repr(str(path))), names)
    assert isinstance(names["plan"], stagewise.Plan)
    assert isinstance(names["decision"], stagewise.Decision)
    assert set(names["decision"].assignment) <= {"c0", "c1", "c3"}


def test_every_public_name_is_there():
    for name in stagewise.__all__:
        assert getattr(stagewise, name) is not None
        assert name in dir(stagewise)
    assert len(set(stagewise.__all__)) == len(stagewise.__all__)
    assert "__version__" in dir(stagewise)
    names: dict = {}
    exec("from stagewise import *", names)
    assert set(stagewise.__all__) <= names.keys()


def test_names_keep_their_meaning_whatever_was_imported_before():
    """`stagewise.plan` and `stagewise.solve` are functions, `stagewise.generate` a module."""
    program = (
        "import stagewise.plan_a.planners, stagewise.plans, stagewise.comparison\n"
        "import stagewise.check, stagewise.methods.stagewise, stagewise.cli.main\n"
        "import stagewise\n"
        "assert stagewise.plan.__name__ == 'plan'\n"
        "assert stagewise.solve.__module__ == 'stagewise.policy'\n"
        "assert stagewise.generate.__name__ == 'stagewise.world.generate'\n"
        "assert stagewise.participation.bernoulli\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'stagewise' has no attribute 'Planner'"):
        _ = stagewise.Planner
    with pytest.raises(ImportError):
        exec("from stagewise import Planner")
    assert not hasattr(stagewise, "__path_to_nowhere__")


@pytest.mark.parametrize(
    "program",
    [
        "import stagewise",
        "import stagewise; stagewise.StagewiseError; dir(stagewise)",
        "from stagewise.cli.main import main; assert main(['--help']) == 0",
        "from stagewise.cli.main import main; assert main(['--version']) == 0",
        "from stagewise.cli.main import main; assert main(['plan', '--help']) == 0",
        "from stagewise.cli.main import main; assert main(['scenario', 'map', '--help']) == 0",
    ],
)
def test_nothing_heavy_is_imported(program):
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint('\\n' + ' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert "stagewise" in loaded
    assert not loaded & set(HEAVY)


def test_planning_needs_neither_torch_nor_plots():
    """The decision code knows nothing of training or pictures."""
    program = (
        "import stagewise, sys\n"
        "s = stagewise.generate.numeric(12, 2, 0)\n"
        "stagewise.plan(s).decide(['c0'])\n"
        "assert not {'torch', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "stagewise.plan(s, method='paper').decide(['c0'])\n"  # scikit-learn brings pandas with it
        "assert not {'torch', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
