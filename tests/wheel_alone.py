"""The package as its users get it: built, installed alone, used without PyTorch: `make wheel-test`.

Arguments are options of the `pip install` that installs it.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

COMMANDS = (
    "scenario numeric --clients 24 --edges 2 --seed 0 -o s.json",
    "availability s.json --rounds 3 --seed 1 -o online.jsonl",
    "plan s.json -o plan.json",
    "check-plan s.json plan.json",
    "decide s.json plan.json --online online.jsonl -o decisions.jsonl",
    "check s.json decisions.jsonl --online online.jsonl",
    "instances",
    "doctor",
)


def run(*command: object, cwd: Path, status: int = 0, **environment: str) -> str:
    """What a command prints; its exit status must be `status`."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != status:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def environment(folder: Path) -> Path:
    """The programs of a new virtual environment."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the archive of the sources, built in an environment of their own."""
    builder = environment(folder / "builder")
    run(builder / "python", "-m", "pip", "install", "--quiet", "build", cwd=folder)
    run(builder / "python", "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def main(folder: Path, *options: str) -> None:
    """Build, look at what is in the files, install, use."""
    own = environment(folder / "venv")
    wheel, source = build(folder)
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    for package in ("stagewise", "stagewise_experiments"):
        sources = (ROOT / "src").joinpath(package).rglob("*")
        files = {str(path.relative_to(ROOT / "src")) for path in sources if path.is_file()}
        missing = {name for name in files - names if "__pycache__" not in name}
        assert not missing, f"not in the wheel: {sorted(missing)}"
    with tarfile.open(source) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
    run(own / "python", "-m", "pip", "install", "--quiet", *options, wheel, cwd=ROOT)
    empty = folder / "empty"
    empty.mkdir()
    own_cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    program = "import importlib.util as u; print(u.find_spec('torch'))"
    assert run(own / "python", "-c", program, cwd=empty).strip() == "None"
    version = run(own / "stagewise", "--version", cwd=empty).strip()
    assert f"-{version}-" in wheel.name, f"{wheel.name}: {version}"
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    for command in COMMANDS:
        run(own / "stagewise", *command.split(), cwd=empty, **own_cache)
    refused = run(own / "stagewise", "simulate", "--out", "run", cwd=empty, status=2, **own_cache)
    assert refused.strip() == (
        "stagewise: training needs PyTorch: pip install 'stagewise-hfl[simulate]'"
    ), refused
    print(f"{wheel.name} works by itself: {', '.join(one.split()[0] for one in COMMANDS)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), *sys.argv[1:])
