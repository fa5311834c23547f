"""`import stagewise`: what it offers, and how light it is."""

import subprocess
import sys

import pytest

import stagewise

HEAVY = ("numpy", "numba", "scipy", "sklearn", "torch", "llvmlite", "pandas", "matplotlib")


def test_every_public_name_is_there():
    for name in stagewise.__all__:
        assert getattr(stagewise, name) is not None
        assert name in dir(stagewise)
    assert len(set(stagewise.__all__)) == len(stagewise.__all__)
    assert set(dir(stagewise)) == {*stagewise.__all__, "__version__"}
    names: dict = {}
    exec("from stagewise import *", names)
    assert set(stagewise.__all__) <= names.keys()


def test_names_keep_their_meaning_whatever_was_imported_before():
    """`stagewise.plan` and `stagewise.solve` are functions, `stagewise.generate` a module."""
    program = (
        "import stagewise.plan_a.planners, stagewise.plans, stagewise.comparison\n"
        "import stagewise.checker, stagewise.policies.plan_policy, stagewise.cli.main\n"
        "import stagewise\n"
        "assert stagewise.plan.__name__ == 'plan'\n"
        "assert stagewise.solve.__module__ == 'stagewise.deciding'\n"
        "assert stagewise.check.__module__ == 'stagewise.checker.decisions'\n"
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
        "stagewise.decide(stagewise.plan(s), [['c0']])\n"
        "assert not {'torch', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        # scikit-learn brings pandas with it
        "stagewise.decide(stagewise.plan(s, method='paper'), [['c0']])\n"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
