"""The score card of docs/quality.md, by release: measured, kept, and written into the page.

    python benchmarks/score_card.py [POLICY] [--size tiny,tight,paper] [--instances NAME,NAME]

With a policy its decisions on the instances are measured and kept in docs/score_card.json under this
version and commit; without one the page is only written again, which is due when best_known.json has
changed. Instances whose data are not here are left out.
"""

import argparse
import os
import subprocess
from pathlib import Path

import stagewise
from stagewise.cores import available_cores
from stagewise.errors import StagewiseError
from stagewise.instances.benchmark import Score
from stagewise.instances.catalogue import load_instances
from stagewise.instances.score_card import markdown, read_card, with_card, with_scores, write_card
from stagewise.warm_up import warm_up

_ROOT = Path(__file__).parents[1]
_CARD, _PAGE = _ROOT / "docs" / "score_card.json", _ROOT / "docs" / "quality.md"


def measure(policy: str, names: list[str]) -> None:
    """Keep the scores of a policy, an instance at a time."""
    commit = _commit()
    warm_up()
    for name in names:
        try:
            scores: list[Score] = stagewise.benchmark(policy, [name])
        except StagewiseError as error:
            print(f"{name}: {error}", flush=True)
            continue
        load = os.getloadavg()[0] / available_cores()
        card = with_scores(read_card(_CARD), (stagewise.__version__, commit, policy), scores, load)
        write_card(card, _CARD)
        print(name, "over best known", scores[0].over_best, flush=True)


def _commit() -> str:
    """The commit of the sources, with a + where they have changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("diff", "--name-only", "HEAD", "--", "src/stagewise/*.py")
    return git("rev-parse", "--short=7", "HEAD") + ("+" if changed else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", nargs="?")
    parser.add_argument("--size", default="tiny,tight,paper,medium,real")
    parser.add_argument("--instances", default="")
    arguments = parser.parse_args()
    sizes = arguments.size.split(",")
    names = [one.name for one in load_instances().values() if one.size in sizes]
    if arguments.policy is not None:
        names = arguments.instances.split(",") if arguments.instances else names
        measure(arguments.policy, names)
    page = with_card(_PAGE.read_text(), markdown(read_card(_CARD)))
    _PAGE.write_text(page)


if __name__ == "__main__":
    main()
