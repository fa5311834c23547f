"""Wrong updates in simulated rounds: refused, named, and harmless; right ones change nothing."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from training_cases import groups_of, largest_difference, noisy_network, small_task

from attacks import ATTACKS, AttackedTrainer, attacking, enormous, scaled
from small_runs import contents, small_run, stopped_after
from stagewise.robust.norms import NormLimits
from stagewise.robust.rules import AGGREGATORS, judges
from stagewise.robust.safeguards import Safeguards
from stagewise.runs.config import Replanning
from stagewise.runs.run import load_run
from stagewise.simulator.start import resume, simulate
from stagewise.training import Trainer
from stagewise.training.device import single_thread
from stagewise.training.participants import Participants
from stagewise.world.generate import Task, numeric
from stagewise.world.scenario import Limits

GROUPS = groups_of([0, 1, 2], [3, 4, 6])
EVEN = numeric(
    20,
    2,
    0,
    task=Task("digits", 10, (10, 10), (50, 80), sample_bits=512, model_bits=77_120),
    limits=Limits(kld_max=5.0, data_min=1),
)


class PlainTrainer(Trainer):
    """Eqs. 2 and 3 as they were before anything could be refused: sums while clients train."""

    def train_round(self, weights, groups, round_index):
        who = Participants.of(groups, self.task, None)
        edges, buffers = len(who.edge_share), self._new_buffers(len(who.edge_share))
        self._buffers = buffers
        self._layout.pack(weights, buffers.models[0], buffers.model_counters[0])
        with single_thread():
            buffers.models[1:edges] = buffers.models[0]
            buffers.model_counters[1:edges] = buffers.model_counters[0]
            for edge_round in range(self.task.edge_rounds):
                sums = torch.zeros_like(buffers.models[:edges])
                counters = torch.zeros_like(buffers.model_counters[:edges])
                jobs = list(self._jobs(who, round_index, edge_round))
                shares = iter(who.share.tolist())
                for job, _ in zip(jobs, self._pool.run(jobs, self._window), strict=True):
                    for row, slot in zip(job.rows, job.slots, strict=True):
                        sums[row].add_(buffers.results[slot], alpha=next(shares))
                        larger = torch.maximum(counters[row], buffers.result_counters[slot])
                        counters[row] = larger
                buffers.models[:edges], buffers.model_counters[:edges] = sums, counters
            share = torch.from_numpy(who.edge_share).to(buffers.models.dtype)
            cloud = share @ buffers.models[:edges]
            return self._layout.unpack(cloud, buffers.model_counters[:edges].amax(0))


@pytest.mark.parametrize("model", ["mlp", noisy_network])
def test_without_an_offender_every_bit_is_as_it_was(model):
    with Trainer(small_task(model)) as guarded, PlainTrainer(small_task(model)) as plain:
        weights = guarded.initial_weights()
        for round_index in range(3):
            expected = plain.train_round(weights, GROUPS, round_index)
            weights, figures = guarded.train_round(weights, GROUPS, round_index)
            assert largest_difference(weights, expected) == 0
            assert figures.account.counted.all() and not figures.account.reasons


@pytest.mark.parametrize("limits", [None, NormLimits(reject=50.0, doubtful=3.0)])
@pytest.mark.parametrize("aggregator", ["mean", "trimmed-mean"])
@pytest.mark.parametrize("model", ["mlp", noisy_network])
def test_a_refused_client_is_as_one_that_did_not_train(model, aggregator, limits):
    """Before anything is known, and by what was learned."""
    task, guard = small_task(model), Safeguards(aggregator, limits)
    with AttackedTrainer(task, 1, enormous, [4]) as attacked, Trainer(task) as honest:
        weights = honest.initial_weights()
        found, figures = attacked.train_round(weights, GROUPS, 0, safeguards=guard)
        without = groups_of([0, 1, 2], [3, 6])
        expected, _ = honest.train_round(weights, without, 0, safeguards=guard)
    assert largest_difference(found, expected) < 1e-9
    assert {client for _, client in figures.account.reasons} == {4}
    assert figures.account.counted.sum() == 5 * task.edge_rounds


def test_an_edge_with_nobody_left_keeps_its_model_and_is_not_counted():
    task, guard = (
        small_task(),
        Safeguards(updates=NormLimits(reject=50.0, doubtful=3.0)),
    )
    with AttackedTrainer(task, 1, enormous, [3, 4, 6]) as attacked, Trainer(task) as honest:
        weights = honest.initial_weights()
        found, figures = attacked.train_round(weights, GROUPS, 0, safeguards=guard)
        expected, _ = honest.train_round(weights, groups_of([0, 1, 2], []), 0, safeguards=guard)
        assert largest_difference(found, expected) < 1e-9
        assert figures.account.edges_counted == {0}
        only = groups_of([], [3, 4])
        same, figures = attacked.train_round(weights, only, 0, safeguards=guard)
    assert largest_difference(same, weights) == 0
    assert figures.account.edges_counted == set()


def test_a_client_alone_at_its_edge_is_compared_at_the_cloud():
    task = small_task()
    with AttackedTrainer(task, 1, enormous, [4]) as attacked, Trainer(task) as honest:
        weights = honest.initial_weights()
        found, figures = attacked.train_round(weights, groups_of([0, 1], [4]), 0)
        expected, _ = honest.train_round(weights, groups_of([0, 1]), 0)
    assert largest_difference(found, expected) < 1e-9
    assert figures.account.edge_reasons.keys() == {1}
    assert "beside it" in figures.account.edge_reasons[1]


def test_a_plain_mean_takes_whatever_arrives():
    task, guard = small_task(), Safeguards("plain-mean", NormLimits(reject=1e-6, doubtful=1e-6))
    guard = replace(guard, edges=guard.updates, offenders=frozenset([0]))
    with Trainer(task) as guarded, PlainTrainer(task) as plain:
        weights = guarded.initial_weights()
        expected = plain.train_round(weights, GROUPS, 0)
        found, figures = guarded.train_round(weights, GROUPS, 0, safeguards=guard)
    assert largest_difference(found, expected) == 0
    assert figures.account.counted.all() and not figures.account.edge_reasons


def test_under_a_plain_mean_nobody_is_an_offender(tmp_path):
    attacked_run(tmp_path / "run", rounds=4, aggregator="plain-mean")
    assert not (tmp_path / "run" / "events.jsonl").exists()
    assert load_run(tmp_path / "run").config.aggregator == "plain-mean"


def attacked_run(out, **options):
    with attacking(scaled, [2, 5]):
        return small_run(out, policy="random-k,k=12+nearest", replanning=Replanning(), **options)


def test_offenders_are_named_quarantined_and_remembered_after_a_stop(tmp_path, monkeypatch):
    options = {"rounds": 14, "quarantine_rounds": 3}
    run = attacked_run(tmp_path / "whole", **options)
    lines = (tmp_path / "whole" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert {event["client"] for event in events} == {"c2", "c5"}
    assert {"rejected", "quarantined"} == {event["kind"] for event in events}
    first = next(event for event in events if event["kind"] == "quarantined")
    away = range(first["round"] + 1, first["round"] + 4)
    for decision in run.decisions:
        if decision.round in away:
            assert first["client"] not in decision.assignment
    for stop in (3, 7):
        folder = tmp_path / str(stop)
        stopped_after(stop, folder, monkeypatch, attacked_run, **options)
        with (folder / "events.jsonl").open("ab") as stream:  # of a round that was not completed
            stream.write(b'{"round":%d,"kind":"rejected","reason":"x"}\n{"rou' % stop)
        with attacking(scaled, [2, 5]):
            assert resume(folder).finished
        assert contents(folder) == contents(tmp_path / "whole")


def test_without_an_offender_there_are_no_events(tmp_path):
    small_run(tmp_path / "run", rounds=2)
    assert not (tmp_path / "run" / "events.jsonl").exists()
    assert load_run(tmp_path / "run").config.aggregator == "mean"


@pytest.fixture(scope="module")
def honest():
    return even_run("mean").accuracy


def even_run(aggregator):
    policy = "random-k,k=20+nearest"
    return simulate(EVEN, "digits", policy, 12, model="mlp", aggregator=aggregator)


@pytest.mark.parametrize("attackers", [[3], [0, 3, 7, 11]])
@pytest.mark.parametrize("aggregator", [one for one in AGGREGATORS if judges(one)])
@pytest.mark.parametrize("attack", ATTACKS)
def test_attackers_cost_little(honest, attack, aggregator, attackers):
    """One of twenty clients, and four of them; the table in the docs has more, on larger data."""
    with attacking(ATTACKS[attack], attackers):
        found = even_run(aggregator).accuracy
    assert found > honest - 0.08
