"""README and tutorials under another Python, without PyTorch: `make python-test PYTHON=python3.13`.

PyTorch may not be there for that Python: what trains must say that it needs it, and nothing else
may fail.
"""

import platform
import re
import tempfile
import time
from pathlib import Path

from wheel_alone import COMMANDS, ROOT, build, environment, run

PACKAGES = ("matplotlib", "pandas", "jinja2", "distributed")
"""Of the extras `simulate` and `cluster`, which also ask for PyTorch."""
TRAINS = {
    "README.md, block 2",
    "plot_deployment.py",
    "plot_own_policy.py",
    "plot_own_selector.py",
    "plot_pictures.py",
    "plot_planner_service.py",
    "plot_training.py",
}
NEEDS_PYTORCH = re.compile("training needs PyTorch|deploy needs Flower")


def programs() -> dict[str, str]:
    """The README's blocks and the tutorials.

    Of the deployment, its command alone: the rest of the page reads what that leaves.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    found = {
        f"README.md, block {number}": f"import stagewise\n{text}"
        for number, text in enumerate(blocks, 1)
    }
    found |= {path.name: path.read_text() for path in sorted(ROOT.glob("docs/tutorials/plot_*.py"))}
    service = "plot_planner_service.py"  # which ends its service after the line that trains
    ended = "import atexit\n\natexit.register(service.terminate)\n\n\ndef ask("
    found[service] = found[service].replace("def ask(", ended, 1)
    up = ["deploy", "up", "--local", "--out", "live"]
    found["plot_deployment.py"] = (
        f"from stagewise.cli.main import main\nraise SystemExit(main({up}))"
    )
    return found


def main(folder: Path) -> None:
    """Build, install with what needs no PyTorch, and do all of it in empty folders."""
    wheel, _ = build(folder)
    own = environment(folder / "venv")
    install = (own / "python", "-m", "pip", "install", "--quiet")
    run(*install, "--upgrade", "pip", cwd=ROOT)
    run(*install, "--no-compile", f"{wheel}[serve]", *PACKAGES, cwd=ROOT)
    options = {"XDG_CACHE_HOME": str(folder / "cache"), "MPLBACKEND": "Agg"}
    place = folder / "commands"
    place.mkdir()
    for command in COMMANDS:
        run(own / "stagewise", *command.split(), cwd=place, **options)
    print(f"Python {platform.python_version()}: {', '.join(each.split()[0] for each in COMMANDS)}")
    seen = run(own / "python", ROOT / "tests/extra_promises.py", "serve", cwd=place, **options)
    print(f"stagewise serve: {seen.strip()}", flush=True)
    for name, text in programs().items():
        began = time.monotonic()
        place = folder / re.sub(r"\W", "-", name)
        place.mkdir()
        (place / "program.py").write_text(text, encoding="utf-8")
        status = 0 if name not in TRAINS else 2 if name == "plot_deployment.py" else 1
        told = run(own / "python", "program.py", cwd=place, status=status, **options)
        assert (name in TRAINS) == bool(NEEDS_PYTORCH.search(told)), f"{name}:\n{told}"
        outcome = "says what it needs" if name in TRAINS else "runs"
        print(f"{name}: {outcome} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
