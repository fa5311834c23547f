"""Names of selectors and associators, with options, as policies and at the command line."""

import pytest

from stagewise import plug_ins
from stagewise.cli.options import listed_methods
from stagewise.comparison import compare
from stagewise.deciding import solve
from stagewise.errors import StagewiseError
from stagewise.policies.registry import make_policy, policy_factory, policy_names
from stagewise.selection.catalogue import (
    associator_names,
    make_associator,
    make_selector,
    selector_names,
)
from stagewise.testing import conformance_problems
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli

SCENARIO = numeric(clients=30, edges=2, seed=0)


@pytest.mark.parametrize(
    ("name", "selector", "associator"),
    [
        ("random-k", "random-k", "least-delay"),
        ("random-k+nearest", "random-k", "nearest"),
        ("random-k,k=7+pool", "random-k,k=7", "pool"),
        ("all-online+balanced", "all-online", "balanced"),
    ],
)
def test_what_a_name_is_made_of(name, selector, associator):
    policy = make_policy(name, SCENARIO, seed=3)
    assert policy.title == name
    assert (policy.selector.title, policy.associator.title) == (selector, associator)


def test_options_and_the_seed_reach_their_class():
    selector = make_selector("random-k,k=7", SCENARIO, seed=3)
    assert (selector.k, selector.seed) == (7, 3)


def test_every_selector_is_a_policy_by_its_name():
    assert set(selector_names()) <= set(policy_names())
    assert "nearest" not in policy_names()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody+nearest", "selector = 'nobody': must be one of all-online, random-k"),
        ("random-k+somewhere", "associator = 'somewhere': must be one of nearest, least-delay"),
        ("random-k+", "associator = '': must be one of nearest"),
        ("+nearest", "selector = '': must be one of all-online"),
        ("random-k+nearest+pool", r"associator = 'nearest\+pool': must be one of"),
        ("random-k,size=3", "'size=3': random-k has the options k, each once"),
        ("random-k,k=3,k=4", "'k=4': random-k has the options k, each once"),
        ("random-k,k", "'k': random-k has the options k, each once"),
        ("random-k,seed=3", "'seed=3': random-k has the options k"),
        ("random-k,k=few", "k = 'few': must be a whole number"),
        ("all-online,k=3", "'k=3': all-online has no options"),
        ("all-online+nearest,k=3", "'k=3': nearest has no options"),
    ],
)
def test_names_that_cannot_be(name, message):
    with pytest.raises(StagewiseError, match=message) as error:
        policy_factory(name)
    assert "\n" not in str(error.value)


def test_a_value_that_cannot_be_is_an_error_of_the_selector():
    with pytest.raises(StagewiseError, match=r"k = 0: must be at least 1"):
        make_policy("random-k,k=0", SCENARIO)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fedcs,exact", ["fedcs", "exact"]),
        ("oort,k=20+nearest,fedcs", ["oort,k=20+nearest", "fedcs"]),
        ("oort, k=20,exploration=0.5+pool , fedcs", ["oort,k=20,exploration=0.5+pool", "fedcs"]),
        ("a+b,phi=2,c", ["a+b,phi=2", "c"]),
        ("fedcs:back-tracking,steps=2,exact", ["fedcs:back-tracking,steps=2", "exact"]),
        ("k=20", ["k=20"]),
        ("", [""]),
    ],
)
def test_lists_of_methods(text, names):
    assert listed_methods(text) == names


def test_compare_takes_them():
    rounds = bernoulli(SCENARIO, 2, 0)
    names = ["random-k,k=5+nearest", "all-online"]
    assert [s.method for s in compare(SCENARIO, rounds, methods=names)] == names
    assert [d.method for d in solve(SCENARIO, rounds, names[0])] == names[:1] * 2


@pytest.mark.parametrize("associator", associator_names())
def test_every_associator_conforms(associator):
    assert conformance_problems(policy_factory(f"random-k+{associator}"), seeds=1) == []


@pytest.mark.parametrize("selector", selector_names())
def test_every_selector_conforms(selector):
    assert conformance_problems(policy_factory(selector), seeds=1) == []


class Point:
    name = "mine"

    def __init__(self, load):
        self.load = load


def test_those_of_installed_packages(monkeypatch):
    def mine():
        return make_selector("random-k,k=2", SCENARIO)

    def installed(*, group):
        return [Point(lambda: mine)] if group == "stagewise.selectors" else []

    monkeypatch.setattr(plug_ins, "entry_points", installed)
    assert selector_names()[-1] == "mine"
    assert make_policy("mine+hashed", SCENARIO).title == "mine+hashed"

    def broken():
        raise RuntimeError("no GPU\nfound")

    monkeypatch.setattr(plug_ins, "entry_points", lambda *, group: [Point(broken)])
    with pytest.raises(StagewiseError, match=r"selector 'mine': .*RuntimeError: no GPU found"):
        make_selector("mine", SCENARIO)


def test_options_without_an_annotation_are_read_as_their_defaults_are(monkeypatch):
    made = []

    def mine(k=5, share=0.5, always=False, word="a", anything=None):
        made.append((k, share, always, word, anything))
        return make_selector("random-k,k=2", SCENARIO)

    monkeypatch.setattr(plug_ins, "entry_points", lambda *, group: [Point(lambda: mine)])
    make_selector("mine,k=7,share=2,always=true,word=3,anything=4", SCENARIO)
    assert made == [(7, 2.0, True, "3", "4")]
    with pytest.raises(StagewiseError, match="k = 'x': must be a whole number"):
        make_selector("mine,k=x", SCENARIO)


def test_what_a_package_makes_must_be_one(monkeypatch):
    monkeypatch.setattr(plug_ins, "entry_points", lambda *, group: [Point(lambda: lambda: 3)])
    with pytest.raises(StagewiseError, match=r"associator = 3: must be a Associator"):
        make_associator("mine", SCENARIO)
