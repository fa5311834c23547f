"""Each extra by itself: the package with it alone in a new environment: `make extras-test`.

Arguments are names of extras; without any, all of them. `--constraint FILE` says which versions are
installed. `extra_promises.py` is what is then done.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from extra_promises import PROMISES
from wheel_alone import ROOT, build, environment, run


def main(folder: Path, names: list[str], constraint: str) -> None:
    """Build once; of each extra, install it, use it, and say what was seen."""
    wheel, _ = build(folder)
    for name in names:
        within = folder / name
        own = environment(within / "venv")
        install = (own / "python", "-m", "pip", "install", "--quiet")
        run(*install, "--upgrade", "pip", cwd=ROOT)
        began = time.monotonic()
        options = ("--no-compile", "--constraint", constraint)
        run(*install, *options, f"{wheel}[{name}]", cwd=ROOT)
        installed = time.monotonic()
        empty = within / "empty"
        empty.mkdir()
        promise = ROOT / "tests" / "extra_promises.py"
        seen = run(own / "python", promise, name, cwd=empty, XDG_CACHE_HOME=str(folder / "cache"))
        took = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to use"
        print(f"{name}: {seen.strip()} ({took})", flush=True)
        shutil.rmtree(within)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--constraint", default="constraints.txt")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), given.extras or list(PROMISES), given.constraint)
