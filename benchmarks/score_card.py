"""The score card of docs/quality.md, by release: measured, kept, and written into the page.

    python benchmarks/score_card.py [POLICY] [--size tiny,tight,paper] [--instances NAME,NAME]
        [--commit COMMIT]

With a policy its decisions on the instances are measured and kept in docs/score_card.json under this
version and commit, or under another commit, whose own code then decides; without a policy the page is
only written again, which is due when best_known.json has changed. Instances whose data are not here are
left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import stagewise
from stagewise.cores import available_cores
from stagewise.errors import StagewiseError
from stagewise.instances.benchmark import Score, costs_and_times, score_of
from stagewise.instances.catalogue import load_instance, load_instances
from stagewise.instances.score_card import (
    Release,
    markdown,
    read_card,
    with_card,
    with_scores,
    write_card,
)
from stagewise.loading import load
from stagewise.warm_up import load_search

_ROOT = Path(__file__).parents[1]
_CARD, _PAGE = _ROOT / "docs" / "score_card.json", _ROOT / "docs" / "quality.md"


def measure(release: Release, names: list[str], scores_of: Callable[[str], list[Score]]) -> None:
    """Keep the scores of a policy, an instance at a time."""
    for name in names:
        try:
            scores = scores_of(name)
        except StagewiseError as error:
            print(f"{name}: {error}", flush=True)
            continue
        load = os.getloadavg()[0] / available_cores()
        write_card(with_scores(read_card(_CARD), release, scores, load), _CARD)
        print(name, "over best known", scores[0].over_best, flush=True)


def measure_here(policy: str, names: list[str]) -> None:
    changed = _git("diff", "--name-only", "HEAD", "--", "src/stagewise/*.py")
    release = _release("HEAD", stagewise.__version__, policy, "+" if changed else "")
    load(load_search)
    measure(release, names, lambda name: stagewise.benchmark(policy, [name]))


def measure_commit(policy: str, names: list[str], commit: str) -> None:
    """Decisions of another commit's code, by its commands and their files."""
    with tempfile.TemporaryDirectory() as folder:
        tree, files = Path(folder, "tree"), Path(folder, "files")
        tree.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(_ROOT), "archive", commit, "src"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)

        def command(*arguments: object) -> str:
            environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
            line = [sys.executable, "-m", "stagewise", *map(str, arguments)]
            done = subprocess.run(line, check=True, env=environment, capture_output=True, text=True)
            return done.stdout.strip()

        def scores_of(name: str) -> list[Score]:
            scenario, rounds = load_instance(name).make()
            files.mkdir(exist_ok=True)
            paths = [files / "scenario.json", files / "rounds.jsonl", files / "decisions.jsonl"]
            stagewise.save_scenario(scenario, paths[0])
            stagewise.save_rounds(rounds, paths[1])
            command("solve", paths[0], "--online", paths[1], "--method", policy, "-o", paths[2])
            decisions = stagewise.load_decisions(paths[2], rounds)
            for line in stagewise.check(scenario, decisions, rounds):
                raise StagewiseError(f"{commit}, {name}: {line}")
            return [score_of(name, *costs_and_times(decisions), None)]

        version = command("--version")
        scores_of(names[0])  # compiles
        measure(_release(commit, version, policy), names, scores_of)


def _release(commit: str, version: str, policy: str, mark: str = "") -> Release:
    """Of a commit, with a mark where its sources have changed since."""
    date_format = "--date=format-local:%Y-%m-%dT%H:%M"
    name, date = _git("log", "-1", "--abbrev=7", "--format=%h %cd", date_format, commit).split()
    return Release(version, name + mark, date, policy)


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments]
    utc = {**os.environ, "TZ": "UTC"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=utc)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", nargs="?")
    parser.add_argument("--size", default="tiny,tight,paper,medium,real")
    parser.add_argument("--instances", default="")
    parser.add_argument("--commit")
    arguments = parser.parse_args()
    sizes = arguments.size.split(",")
    names = [one.name for one in load_instances().values() if one.size in sizes]
    if arguments.policy is not None:
        names = arguments.instances.split(",") if arguments.instances else names
        if arguments.commit is None:
            measure_here(arguments.policy, names)
        else:
            measure_commit(arguments.policy, names, arguments.commit)
    page = with_card(_PAGE.read_text(), markdown(read_card(_CARD)))
    _PAGE.write_text(page)


if __name__ == "__main__":
    main()
