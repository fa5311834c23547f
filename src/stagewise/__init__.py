"""Stagewise: who trains in each round of hierarchical federated learning, and at which edge.

Examples
--------
>>> import stagewise
>>> scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
>>> plan = stagewise.plan(scenario)  # Plan A: who will probably be there
>>> rounds = stagewise.participation.bernoulli(scenario, rounds=3, seed=1)
>>> decisions = stagewise.decide(plan, rounds)  # Plan B: who stands in for the absent
>>> all(decision.feasible for decision in decisions)
True
"""

import importlib as _importlib
import re as _re
from pathlib import Path as _Path

# Names are imported when they are first used: the command line answers --help without NumPy.
_STUB = _Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME = {name: home for home, name in _re.findall(r"^from (\S+) import (\w+) as", _STUB, _re.M)}

__all__ = sorted(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    home = _importlib.import_module(_HOME[name])
    # A module is an attribute of its package only once it has been imported.
    found = getattr(home, name, None) or _importlib.import_module(f"{_HOME[name]}.{name}")
    # Kept, so that `stagewise.checker` stays the function when its module is imported.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]
