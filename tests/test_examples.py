"""What users read runs: the examples of every public callable, the README's, and those of all pages."""

import doctest
import inspect
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import stagewise
from stagewise.cli.main import app

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("how-to/*.md"))]
EXCERPTS = ("architecture.md", "flower-app.md")
"""Lines out of programs, which cannot run by themselves; `tests/flower` runs the whole Flower app."""
RUN_ELSEWHERE = (*EXCERPTS, "selection.md", "serve.md", "policy-in-a-flower-app.md")
"""`tests/selection`, `tests/serve` and `tests/flower` run the last three."""
SHELL_RUNS = ("resume-on-another-machine.md", "run-edges.md", "what-is-measured.md")
"""Pages whose commands are run, too: elsewhere they need data, minutes, or other machines."""


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


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and text of every fenced block, in order."""
    return re.findall(
        r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def runs(page: Path) -> bool:
    """Whether there is anything on a page to run here."""
    kinds = {"python", "sh"} if page.name in SHELL_RUNS else {"python"}
    return page.name not in RUN_ELSEWHERE and any(kind in kinds for kind, _ in blocks(page))


def page_cases() -> list[Any]:
    """Pages that run; one starts servers."""
    marks = {"run-edges.md": [pytest.mark.processes]}
    return [
        pytest.param(page, id=page.name, marks=marks.get(page.name, ()))
        for page in PAGES
        if runs(page)
    ]


@pytest.mark.parametrize("page", page_cases())
def test_the_programs_of_a_page_run(page, tmp_path, monkeypatch):
    """Block after block, as a reader would; training for few rounds instead of so many."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    simulate = stagewise.simulate

    def short(*given, **options):
        rounds = options.get("rounds", 30)
        return simulate(*given, **options | {"rounds": rounds if rounds <= 4 else 2})

    monkeypatch.setattr(stagewise, "simulate", short)
    names: dict = {"__name__": "page"}
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, str(page), "exec"), names)
        elif kind == "sh" and page.name in SHELL_RUNS:
            subprocess.run(["bash", "-euc", text], check=True, capture_output=True, timeout=300)


@pytest.mark.parametrize("page", EXCERPTS)
def test_an_excerpt_is_python(page):
    for kind, text in blocks(DOCS / page):
        if kind == "python":
            compile(text, page, "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exist(page):
    """Every command line of ours has a command, options and values that the program takes."""
    for line in commands_in(page):
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            makefile = (ROOT / "Makefile").read_text()
            assert all(re.search(f"^{target}:", makefile, re.MULTILINE) for target in words[1:])
            continue
        command: Any = get_command(app)
        words = list(itertools.takewhile(lambda word: word not in ("&", ">", ">>", "|"), words[1:]))
        while hasattr(command, "commands"):
            context = command.make_context("stagewise", [], resilient_parsing=True)
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command = found
        command.make_context(command.name, words)


def commands_in(page: Path) -> list[str]:
    """The lines of its shell blocks that call this project, continued lines as one."""
    text = "".join(text for kind, text in blocks(page) if kind == "sh").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith(("stagewise ", "make "))]


def test_commands_are_found(tmp_path):
    assert len(commands_in(README)) == 3
    assert sum(len(commands_in(page)) for page in PAGES) > 40
