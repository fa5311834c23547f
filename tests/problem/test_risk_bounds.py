"""Risk kernels that stop early: what they then say must follow from the whole risk."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import random_scenario
from stagewise.checker.risks import exact_risk
from stagewise.problem.risk import risk_measure
from stagewise.problem.risk_kernels import (
    EXACT_MEMBERS,
    RiskCutoff,
    edge_risk,
    risk_scratch,
    risk_violation,
)
from stagewise.problem.statement import p1
from stagewise.search.instance import build_instance
from stagewise.search.state import new_state, start_from, violation_after, violation_up_to
from stagewise.world.costs import UNASSIGNED
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import Limits


@pytest.mark.parametrize("name", ["exact", "sampled", "markov"])
def test_a_risk_cut_short_says_enough(name):
    """Either the true violation, or something above the cutoff and not above the truth."""
    short = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(seed, 12, labels=5, data=(20, 20_000 if seed % 3 == 0 else 120))
        measure = risk_measure(scenario, name, seed, samples=100)
        members = rng.permutation(12)[: rng.integers(1, 10)]
        limits = tuple(rng.choice([0.0, 0.1, 0.3, 0.6, 1.0], 2))
        truth = risk_violation(*measure.of(members), *limits)
        violation = float(rng.choice([0.0, 0.05, 0.3, np.inf]))
        partial = edge_risk(
            measure.model._replace(samples=measure.samples),
            members,
            len(members),
            RiskCutoff(*limits, violation),
            risk_scratch(5, len(members)),
        )
        found = risk_violation(*partial, *limits)
        if found <= violation:
            assert found == pytest.approx(truth, abs=2 * KLD_TOLERANCE)
        else:
            assert violation < found <= truth + 1e-12
        short += partial != measure.of(members)
    assert (short > 30) == (name == "exact")


def test_what_is_remembered_is_never_a_bound_taken_for_the_truth():
    """The same changes asked with every limit in turn, against an answer nobody cut short."""
    limits = Limits(kld_max=0.5, data_min=150, kld_risk=0.2, data_risk=0.2)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(seed, 20, 3, limits=limits, capacity=(6, 8), coverage=1)
        instance = build_instance(p1(scenario, risk_measure(scenario, "exact")))
        state, fresh = new_state(instance), new_state(instance)
        assignment = np.where(rng.random(20) < 0.6, rng.integers(0, 3, 20), UNASSIGNED)
        start_from(instance, state, assignment)
        for _ in range(200):
            j = int(rng.integers(3))
            link = int(instance.candidate[rng.integers(*instance.candidate_start[[j, j + 1]])])
            if state.edge_of[instance.link_client[link]] == j:
                continue
            leaving = int(state.members[state.member_start[j]])
            limit = float(rng.choice([-1e-17, 0.0, 0.1, 0.5, np.inf]))
            fresh.cache_key[:] = 0
            start_from(instance, fresh, assignment)
            truth = violation_after(instance, fresh, j, leaving, link)
            found = violation_up_to(instance, state, j, leaving, link, limit)
            if found <= limit:
                assert found == pytest.approx(truth, abs=1e-9)
            else:
                assert found <= truth + 1e-12


def test_huge_and_tiny_clients_in_one_edge():
    """A client with a billion samples goes offline; what a few samples give is still exact."""
    scenario = random_scenario(0, 6, labels=4, certain=0, data=(20, 30))
    label_counts = scenario.clients.label_counts.copy()
    label_counts[0] = [10**9, 0, 5, 0]
    scenario = replace(scenario, clients=replace(scenario.clients, label_counts=label_counts))
    found = risk_measure(scenario, "exact").of(np.arange(6))
    assert found == pytest.approx(exact_risk(scenario, range(6)), abs=1e-12)


def test_rounds_are_drawn_only_where_an_edge_may_need_them():
    scenario = random_scenario(0, 40, capacity=(EXACT_MEMBERS, EXACT_MEMBERS))
    measure = risk_measure(scenario, "exact")
    assert len(build_instance(p1(scenario, measure)).samples) == 0
    measure.of(np.arange(EXACT_MEMBERS))
    assert "samples" not in vars(measure)
    scenario = random_scenario(0, 40, capacity=(EXACT_MEMBERS + 1, EXACT_MEMBERS + 1), coverage=1)
    assert len(build_instance(p1(scenario, risk_measure(scenario, "exact"))).samples) == 40
    assert len(build_instance(p1(scenario, risk_measure(scenario, "sampled"))).samples) == 40
