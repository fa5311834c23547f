"""The strategy on a grid in memory, with an independent mean and with failures injected."""

import json
import logging

import numpy as np
import pytest
from fake_grid import FakeGrid, config_record, context_of, reply_with
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx

from helpers import random_scenario
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.flower import StagewiseStrategy, answer_query, answer_query_mod, round_of_query
from stagewise.flower.query import MESSAGE_TYPE
from stagewise.plan_b.remedies import edge_weights
from stagewise.policy import solve
from stagewise.world.rounds import round_of
from stagewise.world.scenario import Limits

LIMITS = Limits(kld_max=0.6, data_min=60, kld_risk=0.6, data_risk=0.6)
FIRST_NODE = 1000


def a_scenario(seed=1, clients=10, edges=3):
    return random_scenario(seed, clients, edges, limits=LIMITS, isolated=0, capacity=(4, 6))


class FirstFreeEdge:
    """Everyone who is there trains, at the first of its edges that has room."""

    def __init__(self, scenario, *, seed=0, seconds=None):
        self.links, self.capacity = scenario.links, scenario.edges.capacity

    def decide(self, round_, index):
        edge_of = np.full(len(round_.online), -1)
        room = self.capacity.copy()
        for client in np.flatnonzero(round_.online):
            for edge in self.links.edge[self.links.start[client] : self.links.start[client + 1]]:
                if room[edge] > 0:
                    edge_of[client], room[edge] = edge, room[edge] - 1
                    break
        return edge_of


def a_model():
    rng = np.random.default_rng(0)
    return {
        "weight": rng.normal(size=(3, 2)).astype(np.float32),
        "bias": rng.normal(size=2),
        "batches": np.array(7),
    }


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def numbers(arrays):
    return {name: array.numpy() for name, array in arrays.items()}


def trained(arrays, client):
    """What client `client` makes of a model: depends on both, so that no mix-up goes unnoticed."""
    return {
        "weight": (arrays["weight"] * np.float32(0.5) + np.float32(client)).astype(np.float32),
        "bias": arrays["bias"] - 0.1 * (client + 1) * arrays["bias"] ** 2,
        "batches": arrays["batches"] + client,
    }


class Client:
    """A node that answers and trains; `spoil` may change its answer or its update."""

    def __init__(self, number, node_config=None, spoil=None):
        self.number, self.spoil = number, spoil
        self.config = {"client-id": f"c{number}"} if node_config is None else node_config

    def __call__(self, message):
        kind = message.metadata.message_type
        if kind == MESSAGE_TYPE:
            return answer_query(message, context_of(self.config))
        if kind == "evaluate":
            metrics = MetricRecord({"num-examples": self.number + 1, "score": float(self.number)})
            return reply_with(message, metrics=metrics)
        arrays = trained(numbers(message.content["arrays"]), self.number)
        metrics = {"num-examples": self.number + 1, "loss": float(self.number)}
        if self.spoil is not None:
            arrays, metrics = self.spoil(message, arrays, metrics)
        if arrays is None:
            return None
        return reply_with(message, arrays=record(arrays), metrics=MetricRecord(metrics))


def a_grid(clients=10, **spoilt):
    """Node 1000 + i is client i; `spoilt` is by id."""
    return FakeGrid({FIRST_NODE + i: Client(i, spoil=spoilt.get(f"c{i}")) for i in range(clients)})


def start(strategy, grid, rounds=1, model=None, **more):
    return strategy.start(
        grid, record(a_model() if model is None else model), rounds, timeout=5, **more
    )


def mean_by_edge(model, decision, data, spared=(), edge_rounds=1, share=None):
    """Eqs. 2 and 3 written out in float64; `spared` clients send nothing."""
    edges, weights = [], []
    for edge in dict.fromkeys(decision.assignment.values()):
        members = [
            int(client[1:])
            for client, own in decision.assignment.items()
            if own == edge and client not in spared
        ]
        if not members:
            continue
        at_edge = model
        for _ in range(edge_rounds):
            updates = [trained(at_edge, i) for i in members]
            size = sum(data[i] for i in members)
            at_edge = {
                name: (
                    max(update[name] for update in updates)
                    if name == "batches"
                    else sum(
                        data[i] * u[name].astype(float)
                        for i, u in zip(members, updates, strict=True)
                    )
                    / size
                ).astype(model[name].dtype)
                for name in model
            }
        edges.append(at_edge)
        weights.append(size * (1 if share is None else share[edge]))
    return {
        name: sum(w * e[name].astype(float) for w, e in zip(weights, edges, strict=True))
        / sum(weights)
        for name in model
    }


def assert_close(result, expected):
    got = numbers(result.arrays)
    assert got.keys() == expected.keys()
    for name, array in got.items():
        assert array.dtype == a_model()[name].dtype
        if name != "batches":
            np.testing.assert_allclose(array, expected[name], rtol=1e-6, atol=1e-6)
        else:
            assert array == np.rint(expected[name])


def test_each_rounds_decision_is_the_policys_own_and_nobody_else_is_configured():
    scenario = a_scenario()
    grid = a_grid()
    strategy = StagewiseStrategy(scenario, policy="pool", seed=4)
    away = [set(), {0, 3}, {7}, {1, 2, 8}, set(range(10)), {5}]

    def answers(number):
        def node(message):
            if message.metadata.message_type == MESSAGE_TYPE:
                available = number not in away[round_of_query(message) - 1]
                config = context_of({"partition-id": number, "num-partitions": 10})
                return answer_query(message, config, available=available)
            return Client(number)(message)

        return node

    grid.nodes = {FIRST_NODE + i: answers(i) for i in range(10)}
    start(strategy, grid, rounds=len(away))
    online = [[f"c{i}" for i in range(10) if i not in gone] for gone in away]
    direct = solve(
        scenario,
        [round_of(scenario, ids) for ids in online],
        method="pool-flexible",
        seed=4,
    )
    assert [report.online.online_ids for report in strategy.rounds] == online
    assert [r.decision.assignment for r in strategy.rounds] == [d.assignment for d in direct]
    assert any(d.assignment for d in direct)
    asked = [(m.metadata.group_id, m.metadata.dst_node_id) for m in grid.sent_of("train")]
    assert sorted(asked) == sorted(
        (f"{number}.0", FIRST_NODE + int(client[1:]))
        for number, decision in enumerate(direct, start=1)
        for client in decision.assignment
    )


@pytest.mark.parametrize("edge_rounds", [1, 3])
def test_the_model_is_the_mean_within_edges_and_then_over_edges(edge_rounds):
    scenario, model = a_scenario(), a_model()
    grid = a_grid()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge, edge_rounds=edge_rounds)
    result = start(strategy, grid, model=model)
    decision = strategy.rounds[0].decision
    assert len(set(decision.assignment.values())) > 1
    expected = mean_by_edge(model, decision, scenario.clients.data, edge_rounds=edge_rounds)
    assert_close(result, expected)
    updates = strategy.rounds[0].updates
    assert len(updates) == edge_rounds * len(decision.assignment)
    assert {u.fate for u in updates} == {"counted"}
    # The losses that clients report are their numbers.
    data = scenario.clients.data[[int(c[1:]) for c in decision.assignment]]
    loss = np.average([int(c[1:]) for c in decision.assignment], weights=data)
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(loss)


def test_several_rounds_start_from_the_last_model():
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)
    result = start(strategy, a_grid(), rounds=3, model=model)
    for report in strategy.rounds:
        mean = mean_by_edge(model, report.decision, scenario.clients.data)
        model = {
            name: (np.rint(mean[name]) if name == "batches" else mean[name]).astype(old.dtype)
            for name, old in model.items()
        }
    assert_close(result, model)


def _raise(message, arrays, metrics):
    raise ValueError("no data left")


def _changed(**changes):
    def spoil(message, arrays, metrics):
        arrays = {**arrays, **changes}
        return {name: array for name, array in arrays.items() if array is not None}, metrics

    return spoil


FAULTS = {
    "nan": (_changed(bias=np.array([0.0, np.nan])), "rejected", "bias"),
    "infinite": (_changed(weight=np.full((3, 2), np.inf, np.float32)), "rejected", "weight"),
    "shape": (_changed(weight=np.zeros((2, 3), np.float32)), "rejected", "(2, 3)"),
    "scalar": (_changed(bias=np.zeros(())), "rejected", "bias"),
    "type": (_changed(bias=np.zeros(2, np.float32)), "rejected", "float32"),
    "missing": (_changed(bias=None), "rejected", "bias"),
    "extra": (_changed(trojan=np.zeros(2)), "rejected", "trojan"),
    "error": (_raise, "lost", "ValueError: no data left"),
    "silence": (lambda *_: (None, None), "lost", "no reply in time"),
}


@pytest.mark.parametrize("edge_rounds", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_update_is_named_and_left_out(fault, edge_rounds, caplog):
    spoil, fate, reason = FAULTS[fault]
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge, edge_rounds=edge_rounds)
    with caplog.at_level(logging.WARNING, logger="flwr"):
        logging.getLogger("flwr").propagate = True
        result = start(strategy, a_grid(c4=spoil, c6=spoil), model=model)
    decision = strategy.rounds[0].decision
    assert {"c4", "c6"} <= decision.assignment.keys()
    expected = mean_by_edge(model, decision, scenario.clients.data, {"c4", "c6"}, edge_rounds)
    assert_close(result, expected)
    bad = [u for u in strategy.rounds[0].updates if u.fate != "counted"]
    assert {(u.client, u.edge_round) for u in bad} == {
        (client, number) for client in ("c4", "c6") for number in range(edge_rounds)
    }
    for update in bad:
        assert update.fate == fate
        assert reason in update.reason and "\n" not in update.reason
    assert "update of client c4" in caplog.text and reason in caplog.text


def test_bytes_that_are_no_array_and_other_replies_of_no_use():
    def garbled(message):
        good = Client(2)(message)
        if message.metadata.message_type == "train":
            array = good.content["arrays"]["bias"]
            good.content["arrays"]["bias"] = Array("float64", (2,), array.stype, b"\x93NUMPY no")
        return good

    def without_arrays(message):
        good = Client(3)(message)
        return good if message.metadata.message_type == MESSAGE_TYPE else reply_with(message)

    grid = a_grid()
    grid.nodes |= {FIRST_NODE + 2: garbled, FIRST_NODE + 3: without_arrays}
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)
    result = start(strategy, grid, model=model)
    report = strategy.rounds[0]
    reasons = {u.client: u.reason for u in report.updates if u.fate == "rejected"}
    assert "bias" in reasons["c2"]
    assert reasons["c3"] == "0 ArrayRecords: must be exactly 1"
    expected = mean_by_edge(model, report.decision, scenario.clients.data, {"c2", "c3"})
    assert_close(result, expected)


def test_what_comes_twice_or_unasked_is_not_counted():
    """A second reply of a node, a reply of a node that was not asked, and one to an older order."""
    scenario, model = a_scenario(), a_model()
    grid = a_grid()

    def intrude(replies):
        train = [r for r in replies if r.metadata.message_type == "train"]
        if not train:
            return []
        again, unasked, old = (Client(1)(m) for m in [grid.sent_of("train")[0]] * 3)
        again.content["arrays"] = record({k: v * 0 for k, v in a_model().items()})
        unasked.metadata.__dict__["_src_node_id"] = 77
        old.metadata.group_id = "0.0"
        old.metadata.__dict__["_src_node_id"] = FIRST_NODE + 9
        return [again, unasked, old]

    grid.extra.append(intrude)
    grid.nodes[FIRST_NODE + 9] = Client(9, spoil=lambda *_: (None, None))
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)
    result = start(strategy, grid, model=model)
    report = strategy.rounds[0]
    assert "c9" in report.decision.assignment
    assert len(report.updates) == len(report.decision.assignment)
    assert [u.client for u in report.updates if u.fate == "lost"] == ["c9"]
    assert_close(result, mean_by_edge(model, report.decision, scenario.clients.data, {"c9"}))


def test_where_nothing_is_of_use_the_model_stays_and_training_goes_on():
    broken = {f"c{i}": _changed(bias=np.array([np.nan, 0])) for i in range(10)}
    scenario = a_scenario()
    seen = []
    strategy = StagewiseStrategy(scenario, FirstFreeEdge, edge_rounds=2)
    result = start(
        strategy,
        a_grid(**broken),
        rounds=2,
        evaluate_fn=lambda _, arrays: seen.append(numbers(arrays)),
    )
    assert len(strategy.rounds) == 2
    assert not result.train_metrics_clientapp
    for arrays in seen:
        for name, array in a_model().items():
            np.testing.assert_array_equal(arrays[name], array)


def test_a_round_in_which_nobody_is_there(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    strategy = StagewiseStrategy(a_scenario(), policy="pool", answer_s=0.01)
    grid = FakeGrid({})
    start(strategy, grid, rounds=2)
    assert [report.decision.assignment for report in strategy.rounds] == [{}, {}]
    assert grid.sent == []


def test_nodes_that_come_a_little_late_are_waited_for(monkeypatch):
    scenario = a_scenario()
    grid = FakeGrid({})
    monkeypatch.setattr(
        "time.sleep",
        lambda _: grid.nodes.setdefault(FIRST_NODE + len(grid.nodes), Client(len(grid.nodes))),
    )
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)
    start(strategy, grid)
    assert len(strategy.rounds[0].online.online_ids) == 10


def test_nodes_that_are_no_clients_are_refused_and_named():
    scenario = a_scenario()
    grid = a_grid()
    replies = {
        2001: Client(0, {"client-id": "stranger"}),
        2002: Client(0, {"partition-id": 10}),
        2003: Client(0, {"partition-id": -1}),
        2004: lambda message: reply_with(message),
        2005: Client(0, {}),
        2006: lambda message: reply_with(message, stagewise=config_record(partition_id="1")),
        2007: lambda message: None,
    }
    grid.nodes |= replies
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)
    start(strategy, grid)
    refused = strategy.rounds[0].refused
    assert refused.keys() == {2001, 2002, 2003, 2004, 2005, 2006}
    assert "'stranger'" in refused[2001] and "must be a client" in refused[2001]
    assert "partition-id = 10" in refused[2002] and "below 10" in refused[2002]
    assert "must have client-id or partition-id" in refused[2005]
    assert len(strategy.rounds[0].online.online_ids) == 10
    assert {m.metadata.dst_node_id for m in grid.sent_of("train")} <= set(range(1000, 1010))


def test_two_nodes_that_claim_one_client():
    """The one that was there before keeps it; a client that comes back as another node is taken."""
    scenario = a_scenario()
    grid = a_grid()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)

    def play(server_round):
        grid.sent.clear()
        messages = strategy.configure_train(server_round, record(a_model()), ConfigRecord(), grid)
        strategy.aggregate_train(server_round, grid.send_and_receive(messages, timeout=1))
        return {m.metadata.dst_node_id for m in messages}

    assert FIRST_NODE + 3 in play(1)
    grid.nodes[5] = Client(3)
    nodes = play(2)
    assert FIRST_NODE + 3 in nodes and 5 not in nodes
    assert strategy.rounds[1].refused == {5: "client 'c3' is node 1003"}
    del grid.nodes[FIRST_NODE + 3]
    assert 5 in play(3)
    grid.nodes[FIRST_NODE + 3] = Client(3)
    nodes = play(4)
    assert 5 in nodes and FIRST_NODE + 3 not in nodes


def test_by_client_the_wrapped_strategy_has_every_update_as_it_came():
    scenario, model = a_scenario(), a_model()
    wrapped = FedAvg(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(scenario, FirstFreeEdge, wrapped=wrapped, aggregate_by_edge=False)
    grid = a_grid()
    result = start(strategy, grid, model=model)
    members = [int(client[1:]) for client in strategy.rounds[0].decision.assignment]
    weights = np.array([i + 1 for i in members])
    expected = {
        name: sum(w * trained(model, i)[name] for w, i in zip(weights, members, strict=True))
        / weights.sum()
        for name in model
    }
    assert_close(result, expected)
    scores = np.average(np.arange(10), weights=np.arange(1, 11))
    assert result.evaluate_metrics_clientapp[1]["score"] == pytest.approx(scores)
    assert len(grid.sent_of("evaluate")) == 10


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"loss": 1.0}, "metric num-examples = None: must be a finite number above 0"),
        ({"num-examples": 0, "loss": 1.0}, "num-examples = 0"),
        ({"num-examples": float("nan"), "loss": 1.0}, "num-examples = nan"),
        ({"num-examples": [1, 2], "loss": 1.0}, "num-examples = [1, 2]"),
        ({"num-examples": 3, "lost": 1.0}, "must have the names that other clients give them"),
    ],
)
def test_by_client_a_reply_the_wrapped_strategy_would_give_up_on(metrics, reason):
    def spoil(message, arrays, _):
        return arrays, metrics

    wrapped = FedAvg(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(
        a_scenario(), FirstFreeEdge, wrapped=wrapped, aggregate_by_edge=False
    )
    result = start(strategy, a_grid(c0=spoil))
    (bad,) = [u for u in strategy.rounds[0].updates if u.fate != "counted"]
    assert bad.client == "c0" and bad.fate == "rejected" and reason in bad.reason
    assert result.arrays


def test_strategies_of_flower_within():
    """FedAdam's step from the mean over edges, and what FedProx tells clients."""
    scenario, model = a_scenario(), {"bias": a_model()["bias"]}
    adam = FedAdam(
        min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1, fraction_evaluate=0.0
    )

    def only_bias(number):
        client = Client(number)

        def node(message):
            if message.metadata.message_type == MESSAGE_TYPE:
                return client(message)
            bias = message.content["arrays"]["bias"].numpy()
            return reply_with(message, arrays=record({"bias": bias - 0.1 * (number + 1)}))

        return node

    strategy = StagewiseStrategy(scenario, FirstFreeEdge, wrapped=adam)
    grid = FakeGrid({FIRST_NODE + i: only_bias(i) for i in range(10)})
    result = start(strategy, grid, model=model)
    members = [int(client[1:]) for client in strategy.rounds[0].decision.assignment]
    moved = -0.1 * (np.array(members) + 1)
    delta = np.average(moved, weights=scenario.clients.data[members])
    first, second = (1 - adam.beta_1) * delta, (1 - adam.beta_2) * delta**2
    eta = adam.eta * np.sqrt(1 - adam.beta_2**2) / (1 - adam.beta_1**2)
    step = eta * first / (np.sqrt(second) + adam.tau)
    np.testing.assert_allclose(numbers(result.arrays)["bias"], model["bias"] + step)

    prox = FedProx(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1, proximal_mu=0.3)
    grid = a_grid()
    start(StagewiseStrategy(scenario, FirstFreeEdge, wrapped=prox, edge_rounds=2), grid)
    told = [message.content["config"]["proximal-mu"] for message in grid.sent_of("train")]
    assert len(told) > 10 and set(told) == {0.3}


def test_reweight_counts_failing_edges_for_less():
    scenario = random_scenario(
        3, 10, 3, limits=Limits(kld_max=0.3, data_min=250), isolated=0, capacity=(4, 6)
    )
    model = a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge, remedy="reweight")
    result = start(strategy, a_grid(), model=model)
    decision = strategy.rounds[0].decision
    weights = edge_weights(decision)
    assert ((weights > 0) & (weights < 1)).any() and len(set(weights[weights > 0])) > 1
    share = dict(zip(scenario.edges.ids, weights, strict=True))
    assert_close(result, mean_by_edge(model, decision, scenario.clients.data, share=share))


@pytest.mark.parametrize("seed", range(5))
def test_every_update_asked_for_ends_in_one_fate(seed):
    """Failures at random in many rounds: nothing is lost silently, and the rest is the mean."""
    rng = np.random.default_rng(seed)
    kinds = [spoil for spoil, _, _ in FAULTS.values()]
    plan = {}

    def moody(number):
        def spoil(message, arrays, metrics):
            key = (message.metadata.group_id, number)
            plan[key] = kinds[rng.integers(len(kinds))] if rng.random() < 0.3 else None
            fault = plan[key]
            return (arrays, metrics) if fault is None else fault(message, arrays, metrics)

        return spoil

    scenario, model = a_scenario(seed, clients=12), a_model()
    models = []
    strategy = StagewiseStrategy(scenario, FirstFreeEdge)
    grid = a_grid(12, **{f"c{i}": moody(i) for i in range(12)})
    start(
        strategy,
        grid,
        rounds=6,
        model=model,
        evaluate_fn=lambda _, arrays: models.append(numbers(arrays)),
    )
    for number, report in enumerate(strategy.rounds, start=1):
        asked = list(report.decision.assignment)
        assert [update.client for update in report.updates] == asked
        failed = {c for c in asked if plan[f"{number}.0", int(c[1:])] is not None}
        assert {u.client for u in report.updates if u.fate != "counted"} == failed
        if failed == set(asked):
            expected = models[number - 1]
        else:
            data = scenario.clients.data
            expected = mean_by_edge(models[number - 1], report.decision, data, failed)
        for name in ("weight", "bias"):
            np.testing.assert_allclose(models[number][name], expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_an_edge_round_without_an_update_leaves_the_edges_model(seed):
    """Clients are silent in edge rounds at random: what was counted is in the model."""
    rng, number = np.random.default_rng(seed), 3
    silent = rng.random((8, number)) < 0.7

    def spoil(message, arrays, metrics):
        client, edge_round = metrics["num-examples"] - 1, int(message.metadata.group_id[-1])
        return (None, None) if silent[client, edge_round] else (arrays, metrics)

    scenario, model = a_scenario(seed, clients=8), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge, edge_rounds=number)
    grid = a_grid(8, **{f"c{i}": spoil for i in range(8)})
    result = start(strategy, grid, model=model)
    assignment, data = strategy.rounds[0].decision.assignment, scenario.clients.data
    assert len(grid.sent_of("train")) == number * len(assignment)
    edges, skipped = [], 0
    for edge in dict.fromkeys(assignment.values()):
        at_edge, size = model, 0
        for edge_round in range(number):
            who = [int(c[1:]) for c, own in assignment.items() if own == edge]
            who = [i for i in who if not silent[i, edge_round]]
            skipped += not who and size > 0
            if who:
                size, updates = int(data[who].sum()), [trained(at_edge, i) for i in who]
                at_edge = {
                    name: np.max([u[name] for u in updates])
                    if name == "batches"
                    else np.average([u[name] for u in updates], axis=0, weights=data[who])
                    for name in model
                }
        if size:
            edges.append((at_edge, size))
    sizes = [size for _, size in edges]
    expected = {
        name: np.average([at_edge[name] for at_edge, _ in edges], axis=0, weights=sizes)
        for name in model
    }
    assert skipped, "no edge lost an edge round"
    assert_close(result, expected)
    counted = {(u.client, u.edge_round) for u in strategy.rounds[0].of_fate("counted")}
    came = {(c, k) for c in assignment for k in range(number) if not silent[int(c[1:]), k]}
    assert counted == came
    assert "loss" in result.train_metrics_clientapp[1]


def test_what_is_saved_passes_the_check(tmp_path, capsys):
    scenario = a_scenario()
    strategy = StagewiseStrategy(scenario, policy="pool", seed=2, answer_s=0.01)
    start(strategy, a_grid(8), rounds=3)
    strategy.save(tmp_path / "out")
    files = [str(tmp_path / "out" / name) for name in ("scenario.json", "decisions.jsonl")]
    assert main(["check", *files, "--online", str(tmp_path / "out" / "online.jsonl")]) == 0
    lines = (tmp_path / "out" / "online.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [[f"c{i}" for i in range(8)]] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wrapped": FedAvg()}, "wrapped.min_train_nodes = 2: must be at most 1"),
        (
            {"wrapped": FedAvg(fraction_train=0.5)},
            "wrapped.fraction_train = 0.5: must be 1.0",
        ),
        ({"edge_rounds": 0}, "edge_rounds = 0: must be at least 1"),
        ({"answer_s": 0}, "answer_s = 0: must be a finite number above 0"),
        ({"remedy": "pray"}, "remedy = 'pray': must be one of drop, reweight, lend"),
        (
            {"edge_rounds": 2, "aggregate_by_edge": False},
            "edge_rounds = 2: must go with aggregate_by_edge = True",
        ),
        (
            {"remedy": "reweight", "aggregate_by_edge": False},
            "remedy = 'reweight': must go with aggregate_by_edge = True",
        ),
        ({"policy": "oracle"}, "method = 'oracle': must be one of"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
    ],
)
def test_arguments_that_cannot_be(arguments, message):
    with pytest.raises(StagewiseError) as error:
        StagewiseStrategy(a_scenario(), **{"policy": FirstFreeEdge, **arguments})
    assert message in str(error.value)


def test_a_wrapped_strategy_that_chooses_for_itself():
    class Choosy(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return list(super().configure_train(server_round, arrays, config, grid))[1:]

    wrapped = Choosy(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge, wrapped=wrapped)
    with pytest.raises(StagewiseError, match="must be one to each of the"):
        start(strategy, a_grid())


def test_the_mod_answers_the_query_and_lets_all_else_pass():
    grid = a_grid(1)
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge, answer_s=0.01)
    start(strategy, grid)
    (query,) = grid.sent_of(MESSAGE_TYPE)
    context = context_of({"client-id": "c5"})
    answer = answer_query_mod(query, context, lambda message, context: None)
    assert answer.content["stagewise"]["client-id"] == "c5"
    train = grid.sent_of("train")[0]
    assert answer_query_mod(train, context, lambda message, context: message) is train
