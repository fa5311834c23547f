"""Policies by name: the registry, entry points of other packages, and the contract."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest

import stagewise.policy
from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.policy import (
    contract_violation,
    decide_with,
    policy_factory,
    policy_names,
    solve,
)
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

OURS = ["stagewise-paper", "stagewise-strict", "stagewise-flexible"]
PAPERS = [
    "orig-prob-solver",
    "kld-minimization",
    "client-sel-only",
    "c2e-assoc-only",
    "c2e-greedy-assoc",
    "fedcs",
]

PLUG_IN = """
import numpy as np

def nobody(scenario, *, seed, seconds):
    return Nobody(len(scenario.clients))

class Nobody:
    def __init__(self, clients):
        self.clients = clients

    def decide(self, round_, index):
        return np.full(self.clients, -1)
"""


@pytest.fixture
def plug_in(tmp_path, monkeypatch) -> Path:
    """A package as pip would install it, with four entry points."""
    (tmp_path / "someones_policy.py").write_text(PLUG_IN)
    (tmp_path / "someones_broken_policy.py").write_text("raise RuntimeError('no GPU\\nfound')")
    info = tmp_path / "someones_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: someones-policy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[stagewise.policies]\n"
        "nobody = someones_policy:nobody\n"
        "broken = someones_broken_policy:policy\n"
        "absent = someones_policy:policy\n"
        "fedcs = someones_policy:nobody\n"
        "[other.group]\n"
        "stranger = someones_policy:nobody\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("someones_policy", None)


@pytest.fixture
def scenario() -> Scenario:
    return random_scenario(0, 8, 3, coverage=0.5, isolated=0, capacity=(2, 2))


def test_the_methods_of_the_paper_and_ours():
    names = policy_names()
    assert set(OURS + PAPERS + ["local-search"]) <= set(names)
    assert len(names) == len(set(names))
    for name in names:
        assert callable(policy_factory(name))


def test_policies_of_installed_packages(plug_in, scenario):
    names = policy_names()
    assert [name for name in names if name in ("nobody", "broken", "absent", "stranger")] == [
        "absent",
        "broken",
        "nobody",
    ]
    assert names.index("absent") > names.index("local-search")
    assert names.count("fedcs") == 1
    made = solve(scenario, bernoulli(scenario, 2, 0), method="nobody")
    assert [decision.assignment for decision in made] == [{}, {}]
    assert [decision.method for decision in made] == ["nobody", "nobody"]


def test_nobody_takes_the_name_of_one_of_ours(plug_in):
    assert policy_factory("fedcs").__module__.startswith("stagewise.")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("broken", "RuntimeError: no GPU found"), ("absent", "AttributeError: .*policy")],
)
def test_a_package_that_cannot_be_loaded(plug_in, name, reason):
    with pytest.raises(StagewiseError, match=f"method '{name}': .*cannot be loaded: {reason}") as e:
        policy_factory(name)
    assert "\n" not in str(e.value)


def test_the_name_of_a_missing_package(monkeypatch):
    points = EntryPoints([EntryPoint("gone", "not_installed_anywhere:f", "stagewise.policies")])
    monkeypatch.setattr(stagewise.policy, "entry_points", lambda *, group: points)
    assert policy_names()[-1] == "gone"
    with pytest.raises(StagewiseError, match=r"method 'gone': .*ModuleNotFoundError"):
        policy_factory("gone")


@pytest.mark.parametrize("name", ["", "oracle", "Fedcs", "stranger", "fedcs "])
def test_an_unknown_name(plug_in, scenario, name):
    with pytest.raises(StagewiseError) as error:
        solve(scenario, [], method=name)
    assert str(error.value).startswith(f"method = {name!r}: must be one of stagewise-paper, ")
    assert "nobody" in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed = -1"),
        ({"seed": 0.5}, "seed = 0.5"),
        ({"seconds": 0}, "seconds = 0"),
        ({"seconds": float("nan")}, "seconds = nan"),
        ({"seconds": float("inf")}, "seconds = inf"),
    ],
)
def test_arguments_that_cannot_be(scenario, options, message):
    with pytest.raises(StagewiseError, match=message):
        solve(scenario, bernoulli(scenario, 1, 0), method="fedcs", **options)


def test_solve_reports_every_decision_as_it_is_made(scenario):
    told = []
    rounds = bernoulli(scenario, 3, 0)
    made = solve(scenario, iter(rounds), method="fedcs", progress=told.append)
    assert told == made
    assert [decision.round for decision in made] == [0, 1, 2]
    assert solve(scenario, [], method="fedcs") == []


class Fixed:
    """Always gives one answer."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, round_: Round, index: int) -> object:
        return self.answer


def links_of(scenario: Scenario, client: int) -> list[int]:
    start = scenario.links.start
    return scenario.links.edge[start[client] : start[client + 1]].tolist()


def test_every_breach_of_the_contract_is_named(scenario):
    online = np.ones(8, dtype=np.bool_)
    online[3] = False
    round_ = Round(scenario, online)
    nobody = np.full(8, -1)
    client, edge = next(
        (c, e) for c in range(8) for e in range(3) if c != 3 and e not in links_of(scenario, c)
    )
    full = next(e for e in range(3) if (scenario.links.edge == e).sum() >= 4)
    crowd = scenario.links.client[scenario.links.edge == full]
    crowd = crowd[crowd != 3][:3]

    def changed(clients: object, value: int) -> np.ndarray:
        answer = nobody.copy()
        answer[clients] = value
        return answer

    whole_numbers = "must be a NumPy array of whole numbers"
    cases: list[tuple[object, str]] = [
        (nobody.tolist(), whole_numbers),
        (None, whole_numbers),
        (nobody.astype(float), whole_numbers),
        (nobody >= 0, whole_numbers),
        (nobody.astype(object), whole_numbers),
        (nobody[:-1], r"must have shape \(8,\), not \(7,\)"),
        (nobody[None, :], r"must have shape \(8,\), not \(1, 8\)"),
        (changed(1, 3), "client 'c1' is given edge 3, which does not exist"),
        (changed(1, -2), "client 'c1' is given edge -2, which does not exist"),
        (changed(3, links_of(scenario, 3)[0]), "client 'c3' serves but is offline"),
        (changed(client, edge), f"client 'c{client}' has no link to edge 'es{edge}'"),
        (changed(crowd, full), f"edge 'es{full}' has 3 clients, above its capacity 2"),
    ]
    for answer, message in cases:
        with pytest.raises(StagewiseError, match=f"method 'mine', round 5: .*{message}"):
            decide_with(Fixed(answer), round_, 5, "mine")
    for good in (nobody, nobody.astype(np.int8), changed(client, links_of(scenario, client)[0])):
        assert contract_violation(round_, good) is None
        made = decide_with(Fixed(good), round_, 5, "mine")
        assert made.edge_of.tolist() == good.tolist()
        assert made.round == 5


def test_unsigned_answers_do_not_wrap_around(scenario):
    round_ = Round(scenario, np.ones(8, dtype=np.bool_))
    answer = np.full(8, 2**64 - 1, dtype=np.uint64)
    assert "does not exist" in contract_violation(round_, answer)


def test_a_decision_keeps_no_hold_of_the_policys_array(scenario):
    """A policy may reuse its array from round to round."""
    answer = np.full(8, -1)
    made = decide_with(Fixed(answer), Round(scenario, np.ones(8, dtype=np.bool_)), 0, "mine")
    answer[:] = 7
    assert (made.edge_of == -1).all()


def test_an_edge_may_be_full_and_an_edge_may_have_no_room(scenario):
    edges = replace(scenario.edges, capacity=np.array([0, 2, 2]))
    tight = replace(scenario, edges=edges)
    round_ = Round(tight, np.ones(8, dtype=np.bool_))
    answer = np.full(8, -1)
    crowd = tight.links.client[tight.links.edge == 1][:2]
    answer[crowd] = 1
    assert contract_violation(round_, answer) is None
    answer[crowd] = -1
    answer[tight.links.client[tight.links.edge == 0][0]] = 0
    assert contract_violation(round_, answer) == "edge 'es0' has 1 clients, above its capacity 0"
