"""Find out more about the instances, and keep it in the package: digests, best decisions, bounds.

    python benchmarks/best_known.py [NAME ...] [--seconds 30] [--methods pool exact] [--prices]

Without names every instance of which the data are here; `--prices` adds what `stagewise bound` proves;
`--digests` writes those that are missing and ends. A value or a bound is only ever replaced by a better
one, and `stagewise check` is asked before.
"""

import argparse
import math
import re
from pathlib import Path

import stagewise
from stagewise.errors import StagewiseError
from stagewise.instances import catalogue
from stagewise.instances.best_known import BestKnown, read_best_known, write_best_known
from stagewise.instances.catalogue import digest_of, load_instances

_FILE = Path(catalogue.__file__).with_name("instances.toml")


def write_digests() -> None:
    """Fill in the digest of every instance that has none."""
    text = _FILE.read_text()
    for name, instance in load_instances().items():
        if not instance.sha256:
            digest = digest_of(*instance._made())
            front = re.escape(f'name = "{name}"\n')
            text = re.sub(f"({front})", rf'\1sha256 = "{digest}"\n', text)
            print(name, digest[:16], flush=True)
    _FILE.write_text(text)


def look_at(name: str, methods: list[str], seconds: float, prices: bool) -> None:
    """Decide the rounds of an instance by every method, and keep what is better than before."""
    scenario, rounds = load_instances()[name].make()
    before = read_best_known().get(name, [BestKnown()] * len(rounds))
    now = list(before)
    for method in methods:
        decisions = stagewise.solve(scenario, rounds, method, seconds=seconds)
        for line in stagewise.check(scenario, decisions, rounds):
            raise StagewiseError(f"{name}, {method}: {line}")
        for decision in decisions:
            by = f"{method} {stagewise.__version__}"
            index = decision.round.index
            now[index] = now[index].with_(
                BestKnown(
                    decision.objective if decision.feasible else None,
                    by,
                    decision.lower_bound,
                    "" if decision.lower_bound is None else by,
                )
            )
    if prices:
        bounds = stagewise.bound(scenario, rounds, seconds=seconds)
        for line in stagewise.check_bounds(scenario, bounds, rounds):
            raise StagewiseError(f"{name}, prices: {line}")
        by = f"prices {stagewise.__version__}"
        for proven in bounds:
            if not math.isfinite(proven.value):
                continue  # an edge has no cluster, which a number does not say
            index = proven.round.index
            now[index] = now[index].with_(BestKnown(bound=proven.value, bound_by=by))
    write_best_known({**read_best_known(), name: now})
    gaps = [f"{one.gap:.3%}" if one.gap is not None else "?" for one in now]
    print(name, "gaps", *gaps, "new" if now != before else "as before", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--methods", nargs="*", default=["pool-flexible", "exact"])
    parser.add_argument("--prices", action="store_true")
    parser.add_argument("--digests", action="store_true")
    arguments = parser.parse_args()
    if arguments.digests:
        write_digests()
        return
    for name in arguments.names or load_instances():
        try:
            look_at(name, arguments.methods, arguments.seconds, arguments.prices)
        except StagewiseError as error:
            print(f"{name}: {error}")


if __name__ == "__main__":
    main()
