"""Policies by name: the registry, entry points of other packages, and the contract."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest

import stagewise
from helpers import decide_round, random_scenario
from stagewise import plug_ins
from stagewise.comparison import compare
from stagewise.deciding import solve
from stagewise.decisions import Answer, contract_violation
from stagewise.errors import StagewiseError
from stagewise.policies.policy import Policy
from stagewise.policies.registry import make_policy, policy_factory, policy_name, policy_names
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Links, Scenario

OURS = [
    "stagewise-paper",
    "stagewise-paper-flexible",
    "stagewise-strict",
    "stagewise-flexible",
    "pool-strict",
    "pool-flexible",
]
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
import stagewise

def nobody(scenario, *, seed, seconds):
    return Nobody()

class Nobody(stagewise.Policy):
    def decide(self, round_):
        return stagewise.Answer(np.full(len(round_.online), -1))
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
    assert set(OURS + PAPERS + ["local-search", "exact"]) <= set(names)
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
    monkeypatch.setattr(plug_ins, "entry_points", lambda *, group: points.select(group=group))
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
    assert [decision.round.index for decision in made] == [0, 1, 2]
    assert solve(scenario, [], method="fedcs") == []


class Fixed(Policy):
    """Always gives one answer."""

    name = "mine"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, round_: Round) -> object:
        return self.answer


def links_of(scenario: Scenario, client: int) -> list[int]:
    start = scenario.links.start
    return scenario.links.edge[start[client] : start[client + 1]].tolist()


def test_every_breach_of_the_contract_is_named(scenario):
    online = np.ones(8, dtype=np.bool_)
    online[3] = False
    round_ = Round(scenario, online, 5)
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

    cases: list[tuple[object, str]] = [
        (nobody, "the answer must be a stagewise.Answer, not ndarray"),
        (nobody.tolist(), "the answer must be a stagewise.Answer, not list"),
        (None, "the answer must be a stagewise.Answer, not NoneType"),
        (Answer(nobody[:-1]), r"must have shape \(8,\), not \(7,\)"),
        (Answer(changed(1, 3)), "client 'c1' is given edge 3, which does not exist"),
        (Answer(changed(3, links_of(scenario, 3)[0])), "client 'c3' serves but is offline"),
        (Answer(changed(client, edge)), f"client 'c{client}' has no link to edge 'es{edge}'"),
        (Answer(changed(crowd, full)), f"edge 'es{full}' has 3 clients, above its capacity 2"),
        (Answer(nobody, None, np.ones(2)), r"edge_weights must have shape \(3,\), not \(2,\)"),
        (
            Answer(nobody, client_weights=np.ones(3)),
            r"client_weights must have shape \(8,\), not \(3,\)",
        ),
    ]
    for answer, message in cases:
        with pytest.raises(StagewiseError, match=f"method 'mine', round 5: .*{message}"):
            decide_round(Fixed(answer), round_)
    for good in (nobody, nobody.astype(np.int8), changed(client, links_of(scenario, client)[0])):
        assert contract_violation(round_, Answer(good)) is None
        made = decide_round(Fixed(Answer(good)), round_)
        assert made.edge_of.tolist() == good.tolist()
        assert made.round is round_


def test_a_link_that_is_down_is_no_link(scenario):
    client = next(c for c in range(8) if len(links_of(scenario, c)) > 1)
    edge = links_of(scenario, client)[0]
    up = np.ones(len(scenario.links), dtype=np.bool_)
    up[scenario.links.start[client]] = False
    answer = np.full(8, -1)
    answer[client] = edge
    everybody = np.ones(8, dtype=np.bool_)
    assert contract_violation(Round(scenario, everybody), Answer(answer)) is None
    assert contract_violation(Round(scenario, everybody, up=up), Answer(answer)) == (
        f"client 'c{client}' has a link down to edge 'es{edge}'"
    )


def test_a_scenario_without_any_link(scenario):
    """Whoever serves has no link; whoever does not is fine."""
    none = Links(start=np.zeros(9, dtype=np.int64), edge=np.zeros(0, dtype=np.int64))
    lonely = replace(scenario, links=none, file_sha256=None)
    round_ = Round(lonely, np.ones(8, dtype=np.bool_))
    answer = np.full(8, -1)
    assert contract_violation(round_, Answer(answer)) is None
    answer[2] = 1
    assert contract_violation(round_, Answer(answer)) == "client 'c2' has no link to edge 'es1'"


def test_a_decision_keeps_no_hold_of_the_policys_array(scenario):
    """A policy may reuse its array from round to round."""
    answer = np.full(8, -1)
    made = decide_round(Fixed(Answer(answer)), Round(scenario, np.ones(8, dtype=np.bool_)))
    answer[:] = 7
    assert (made.edge_of == -1).all()


def test_an_edge_may_be_full_and_an_edge_may_have_no_room(scenario):
    edges = replace(scenario.edges, capacity=np.array([0, 2, 2]))
    tight = replace(scenario, edges=edges)
    round_ = Round(tight, np.ones(8, dtype=np.bool_))
    answer = np.full(8, -1)
    crowd = tight.links.client[tight.links.edge == 1][:2]
    answer[crowd] = 1
    assert contract_violation(round_, Answer(answer)) is None
    answer[crowd] = -1
    answer[tight.links.client[tight.links.edge == 0][0]] = 0
    assert (
        contract_violation(round_, Answer(answer))
        == "edge 'es0' has 1 clients, above its capacity 0"
    )


def test_pool_is_another_name_of_pool_flexible_everywhere(scenario):
    assert policy_name("pool") == "pool-flexible"
    assert "pool" not in policy_names()
    assert policy_factory("pool") is policy_factory("pool-flexible")
    policy = make_policy("pool", scenario)
    assert (policy.name, policy.mode, policy.plan_b) == ("pool-flexible", "flexible", "pool")
    rounds = bernoulli(scenario, 1, 0)
    assert [d.method for d in solve(scenario, rounds, "pool")] == ["pool-flexible"]
    assert [s.method for s in compare(scenario, rounds, methods=["pool"])] == ["pool-flexible"]


class Nobody(Policy):
    def decide(self, round_: Round) -> Answer:
        return Answer(np.full(len(round_.online), -1))


def test_a_policy_a_factory_or_a_class(scenario):
    """What decisions call each."""

    def somebody(scenario, *, seed, seconds):
        return Nobody()

    class Made(Nobody):
        def __init__(self, scenario, *, seed, seconds):
            self.given = (scenario, seed, seconds)

    policy = Nobody()
    assert make_policy(policy, scenario) is policy
    assert policy.title == "Nobody"
    assert make_policy(somebody, scenario).title == "somebody"
    made = make_policy(Made, scenario, seed=4, seconds=2.5)
    assert made.given == (scenario, 4, 2.5)
    assert made.title == "Made"
    named = Nobody()
    named.name = "quiet"
    rounds = bernoulli(scenario, 1, 0)
    assert [d.method for d in solve(scenario, rounds, lambda s, *, seed, seconds: named)] == [
        "quiet"
    ]


class OnlyDecides:
    def decide(self, round_):
        return Answer(np.full(len(round_.online), -1))


class LooksTheSame(OnlyDecides):
    """Has every word that the loop calls, but not the defaults of the base class."""

    plan = None

    def observe(self, outcome): ...

    def state(self):
        return {}

    def restore(self, state): ...


@pytest.mark.parametrize(
    "given",
    [
        OnlyDecides(),
        LooksTheSame(),
        lambda scenario, *, seed, seconds: OnlyDecides(),
        lambda scenario, *, seed, seconds: LooksTheSame(),
        lambda scenario, *, seed, seconds: None,
        lambda scenario, *, seed, seconds: np.zeros(8),
        OnlyDecides,
        3,
        None,
        [Nobody()],
    ],
)
def test_what_is_no_policy_is_one_line(scenario, given):
    with pytest.raises((StagewiseError, TypeError)) as error:
        make_policy(given, scenario)
    if given is not OnlyDecides:  # a class that takes no scenario: Python's own error
        assert isinstance(error.value, StagewiseError)
        assert str(error.value).startswith("policy = ")
        assert "\n" not in str(error.value)


def test_a_policy_that_follows_no_plan_says_so(scenario):
    policy = Nobody()
    assert policy.plan is None and policy.state() == {}
    with pytest.raises(StagewiseError, match="policy 'Nobody': must be one that follows a plan"):
        policy.follow(stagewise.plan(scenario, method="paper"))
