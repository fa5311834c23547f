"""Methods side by side: the means are right, and where they run does not matter."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context

import numpy as np
import pytest

from helpers import random_scenario
from stagewise.comparison import MethodSummary, compare, summarise
from stagewise.deciding import decide, solve
from stagewise.errors import StagewiseError
from stagewise.plan_a.planners import plan
from stagewise.policies.registry import policy_names
from stagewise.world.fluctuation import fluctuate
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Limits

TIMES = ("decision_ms_median", "decision_ms_max", "plan_ms")
LIMITS = Limits(kld_max=0.6, data_min=100, kld_risk=0.5, data_risk=0.5)


@pytest.fixture(scope="module")
def world():
    scenario = random_scenario(3, 12, 2, limits=LIMITS)
    return scenario, fluctuate(bernoulli(scenario, 4, 0), 0)


def without_times(summaries: list[MethodSummary]) -> list[dict]:
    return [
        {name: value for name, value in summary.as_dict().items() if name not in TIMES}
        for summary in summaries
    ]


def test_the_means_of_each_method(world):
    scenario, rounds = world
    names = ["fedcs", "local-search", "orig-prob-solver"]
    for summary, name in zip(compare(scenario, rounds, methods=names, seed=2), names, strict=True):
        made = solve(scenario, rounds, method=name, seed=2)
        assert summary.method == name
        assert summary.rounds == 4
        assert summary.feasible_rounds == sum(not decision.violations for decision in made)
        for field in ("objective", "delay_s", "energy_j"):
            mean = sum(getattr(decision, field) for decision in made) / 4
            assert getattr(summary, field) == pytest.approx(mean)
        assert summary.clients == sum(len(decision.assignment) for decision in made) / 4
        records = [edge for decision in made for edge in decision.record().edges]
        klds = [edge.kld for edge in records if edge.kld is not None]
        assert summary.kld == pytest.approx(sum(klds) / len(klds))
        assert 0 <= summary.decision_ms_median <= summary.decision_ms_max
        assert summary.plan_ms is None


def test_all_methods_in_their_order_by_default(world):
    scenario, rounds = world
    told: list[MethodSummary] = []
    summaries = compare(scenario, rounds[:1], progress=told.append)
    assert [summary.method for summary in summaries] == policy_names()
    assert told == summaries
    planned = {summary.method for summary in summaries if summary.plan_ms is not None}
    assert planned == {name for name in policy_names() if name.startswith(("stagewise-", "pool-"))}
    assert all(summary.plan_ms > 0 for summary in summaries if summary.plan_ms is not None)


def test_a_process_pool_gives_the_same_numbers(world):
    scenario, rounds = world
    names = ["stagewise-strict", "fedcs", "stagewise-paper", "local-search"]
    here = compare(scenario, rounds, methods=names, seed=5)
    told: list[MethodSummary] = []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        there = compare(
            scenario, rounds, methods=names, seed=5, executor=executor, progress=told.append
        )
    assert without_times(there) == without_times(here)
    assert sorted(summary.method for summary in told) == sorted(names)


def test_threads_give_the_same_numbers(world):
    scenario, rounds = world
    names = ["stagewise-flexible", "orig-prob-solver", "fedcs", "kld-minimization", "local-search"]
    with ThreadPoolExecutor(4) as executor:
        there = compare(scenario, rounds, methods=names, executor=executor)
    assert without_times(there) == without_times(compare(scenario, rounds, methods=names))


def test_no_rounds(world):
    scenario, _ = world
    (summary,) = compare(scenario, [], methods=["fedcs"])
    assert (summary.rounds, summary.feasible_rounds, summary.objective) == (0, 0, 0.0)
    assert all(np.isfinite(getattr(summary, name)) for name in TIMES[:2])


def test_rounds_with_nobody_online_have_no_divergence(world):
    scenario, _ = world
    made = solve(scenario, bernoulli(scenario, 1, 0)[:0], method="fedcs")
    (nobody,) = decide(plan(scenario, method="paper"), [[]])
    assert summarise("m", [*made, nobody], 3.0).kld == 0.0
    assert summarise("m", [nobody], 3.0).plan_ms == 3.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["fedcs", "oracle"]}, "method = 'oracle'"),
        ({"seed": -3}, "seed = -3"),
        ({"seconds": -1}, "seconds = -1"),
    ],
)
def test_arguments_that_cannot_be_stop_before_any_work(world, options, message):
    scenario, rounds = world
    told: list[MethodSummary] = []
    with pytest.raises(StagewiseError, match=message):
        compare(scenario, rounds, **options, progress=told.append)
    assert told == []


def test_a_summary_has_every_field(world):
    scenario, rounds = world
    (summary,) = compare(scenario, rounds[:1], methods=["fedcs"])
    assert list(summary.as_dict()) == [field.name for field in fields(MethodSummary)]
