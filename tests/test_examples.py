"""What users read runs: the examples of every public callable, and the README's."""

import doctest
import inspect
import re
import sys
from pathlib import Path

import pytest

import stagewise

README = Path(__file__).parents[1] / "README.md"
MODULES = ("generate", "participation")
TRAINS = ("Run", "load_run", "resume", "simulate")


def public_callables() -> dict[str, object]:
    """Every function and class that `import stagewise` offers, those of its two modules included."""
    found = {name: getattr(stagewise, name) for name in stagewise.__all__ if name not in MODULES}
    for name in MODULES:
        module = getattr(stagewise, name)
        for inner, value in vars(module).items():
            ours = getattr(value, "__module__", "").startswith(module.__name__)
            if inspect.isfunction(value) and ours and not inner.startswith("_"):
                found[f"{name}.{inner}"] = value
    return found


CALLABLES = public_callables()


def parameters(thing: object) -> list[str]:
    if isinstance(thing, type) and issubclass(thing, Exception):
        return []
    return [name for name in inspect.signature(thing).parameters if not name.startswith("_")]


@pytest.mark.parametrize("name", CALLABLES)
def test_it_is_documented(name):
    """As numpydoc has it: each parameter by its name, and an example."""
    thing = CALLABLES[name]
    text = inspect.cleandoc(thing.__doc__ or "")
    assert "\nExamples\n--------\n>>> " in text
    if parameters(thing):
        _, _, rest = text.partition("\nParameters\n----------\n")
        section = re.split(r"\n\n\w+\n-+\n", rest)[0]
        entries = re.findall(r"^(\S[^:\n]*)", section, flags=re.MULTILINE)
        named = {part.strip(" *") for entry in entries for part in entry.split(",")}
        assert set(parameters(thing)) == named


@pytest.mark.parametrize("name", CALLABLES)
def test_its_examples_run(name, tmp_path, monkeypatch):
    if name in TRAINS:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    thing = CALLABLES[name]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    names = dict(vars(sys.modules[thing.__module__]))
    for examples in doctest.DocTestFinder(recurse=False).find(thing, name, globs=names):
        told: list[str] = []
        result = runner.run(examples, out=told.append)
        assert result.attempted > 0
        assert result.failed == 0, "".join(told)


def test_the_example_of_the_package_runs():
    result = doctest.testmod(stagewise)
    assert result.attempted > 3
    assert result.failed == 0


def test_the_readme_runs(tmp_path, monkeypatch, data_dir):
    """Block after block, as a reader would; training for two rounds instead of so many."""
    pytest.importorskip("torch")
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    monkeypatch.chdir(tmp_path)
    simulate = stagewise.simulate
    monkeypatch.setattr(
        stagewise, "simulate", lambda *given, **options: simulate(*given, **options | {"rounds": 2})
    )
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
