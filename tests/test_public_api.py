"""`import stagewise`: what it offers, and how light it is."""

import inspect
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

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


def public_callables():
    """Every public function and class, and the public methods that a class defines itself."""
    for name in stagewise.__all__:
        value = getattr(stagewise, name)
        if inspect.ismodule(value):
            listed = getattr(value, "__all__", [part for part in vars(value) if part[0] != "_"])
            owned = {part: getattr(value, part) for part in listed}
            yield from (
                (f"{name}.{part}", one)
                for part, one in owned.items()
                if inspect.isfunction(one) or inspect.isclass(one)
            )
        elif inspect.isfunction(value) or inspect.isclass(value):
            yield name, value
        for part, method in vars(value).items() if inspect.isclass(value) else ():
            wrapped = (getattr(method, kind, None) for kind in ("fget", "func", "__func__"))
            function = next(filter(None, wrapped), method)
            if not part.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{part}", getattr(value, part)


def test_everything_public_says_what_it_is():
    """A method may take its words from the method that it overrides."""
    without = [name for name, one in public_callables() if not inspect.getdoc(one)]
    assert not without, f"no docstring: {', '.join(without)}"
    assert sum(1 for _ in public_callables()) > len(stagewise.__all__)


def test_names_of_the_flower_part():
    """They are imported when they are first used, and are those that a reader is shown."""
    from stagewise import flower

    assert set(flower.__all__) <= set(dir(flower))
    with pytest.raises(AttributeError, match=r"module 'stagewise\.flower' has no attribute 'Plan'"):
        _ = flower.Plan


def test_versions_say_what_is_missing(monkeypatch, capsys):
    def version(name: str) -> str:
        if name == "torch":
            raise PackageNotFoundError(name)
        return "1.2.3"

    monkeypatch.setattr("stagewise.versions.version", version)
    stagewise.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert {"torch: not installed", "numpy: 1.2.3"} <= set(lines)
