"""Commands of other packages: found by entry point, and harmless where they are broken."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from stagewise.cli import plugins
from stagewise.cli.main import main

MODULE = """
import typer

app = typer.Typer(help="Commands of another package.")


@app.command()
def greet(name: str) -> None:
    print(f"hello {name}")


@app.command()
def fail() -> None:
    from stagewise import StagewiseError

    raise StagewiseError("greeting = 'x': must be polite")
"""


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Declares entry points, and forgets them after the test."""
    (tmp_path / "another_package.py").write_text(MODULE)
    (tmp_path / "broken_package.py").write_text("raise RuntimeError('out of\\norder')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def declare(**values: str) -> None:
        points = [EntryPoint(name, value, plugins.ENTRY_POINTS) for name, value in values.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda *, group: EntryPoints(points))
        forget()

    def forget() -> None:
        plugins._entry_points.cache_clear()
        plugins._load.cache_clear()

    yield declare
    forget()


def test_a_command_of_another_package(commands, capsys):
    commands(other="another_package:app")
    assert main(["other", "greet", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"
    assert main(["--help"]) == 0
    streams = capsys.readouterr()
    assert "Commands of another package." in streams.out
    assert streams.err == ""
    assert main(["other", "fail"]) == 2
    assert capsys.readouterr().err == "stagewise: greeting = 'x': must be polite\n"


def test_it_cannot_replace_a_command_of_ours(commands, capsys):
    commands(methods="another_package:app")
    assert main(["methods"]) == 0
    assert "pool-flexible" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("broken_package:app", "RuntimeError: out of order"),
        ("no_such_package:app", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("another_package:greet", "TypeError: must be a typer.Typer, but is a function"),
    ],
)
def test_a_broken_command_breaks_no_other(commands, capsys, value, reason):
    commands(broken=value, other="another_package:app")
    line = f"stagewise: command broken ({value}): {reason}\n"
    assert main(["--help"]) == 0
    streams = capsys.readouterr()
    assert streams.err == line
    assert "Commands of another package." in streams.out
    assert main(["other", "greet", "you"]) == 0
    assert main(["methods"]) == 0
    assert capsys.readouterr().err == ""  # who does not ask for it does not hear of it
    assert main(["broken"]) == 2
    assert capsys.readouterr().err == line


def test_no_module_of_the_library_imports_the_experiments():
    from pathlib import Path

    import stagewise

    for path in Path(stagewise.__file__).parent.rglob("*.py"):
        assert "stagewise_experiments" not in path.read_text(encoding="utf-8"), path
