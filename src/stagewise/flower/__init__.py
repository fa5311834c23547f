"""For those who run Flower themselves: a strategy that asks a policy whom to configure.

strategy = StagewiseStrategy(scenario, policy="pool", seed=0)     # in the ServerApp
app.query("stagewise")(answer_query)                              # in the ClientApp
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagewise.deploy.exchange import ClientReport as ClientReport
    from stagewise.flower.query import answer_query as answer_query
    from stagewise.flower.query import answer_query_mod as answer_query_mod
    from stagewise.flower.query import round_of_query as round_of_query
    from stagewise.flower.report import RoundReport as RoundReport
    from stagewise.flower.strategy import StagewiseStrategy as StagewiseStrategy

# Names are imported when they are first used: a client that only answers a query loads no compiler.
_HOME = {
    "ClientReport": "stagewise.deploy.exchange",
    "RoundReport": "stagewise.flower.report",
    "StagewiseStrategy": "stagewise.flower.strategy",
    "answer_query": "stagewise.flower.query",
    "answer_query_mod": "stagewise.flower.query",
    "round_of_query": "stagewise.flower.query",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'stagewise.flower' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
