"""Whom the strategy asks, and whom it does not: the roll call and the policy's decisions."""

import json

from fake_grid import FakeGrid, config_record, context_of, reply_with
from flower_clients import (
    FIRST_NODE,
    Client,
    FirstFreeEdge,
    a_grid,
    a_scenario,
    assert_close,
    fail,
    numbers,
    start,
)

from serve_cases import serving
from stagewise.cli.main import main
from stagewise.deciding import solve
from stagewise.flower import StagewiseStrategy, answer_query, answer_query_mod, round_of_query
from stagewise.flower.query import MESSAGE_TYPE


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
    direct = solve(scenario, online, method="pool-flexible", seed=4)
    played = [report.decision.round for report in strategy.rounds]
    assert [(r.index, r.online_ids) for r in played] == list(enumerate(online))
    assert [r.decision.assignment for r in strategy.rounds] == [d.assignment for d in direct]
    assert any(d.assignment for d in direct)
    asked = [(m.metadata.group_id, m.metadata.dst_node_id) for m in grid.sent_of("train")]
    assert sorted(asked) == sorted(
        (f"{number}.0", FIRST_NODE + int(client[1:]))
        for number, decision in enumerate(direct, start=1)
        for client in decision.assignment
    )


def test_a_service_decides_as_the_policy_itself(tmp_path):
    """Also a policy that asks for losses first, and learns from what came of its rounds."""
    scenario, result = a_scenario(), {}

    def played(policy):
        strategy = StagewiseStrategy(scenario, policy=policy, seed=4, remedy=None)
        result[policy] = start(strategy, a_grid(c3=fail), rounds=4)
        return [(r.decision.round.online_ids, r.decision.assignment) for r in strategy.rounds]

    for name in ("pool", "oort,k=5+nearest"):
        own = played(name)
        with serving(str(tmp_path / "a.db")) as client:
            address = f"{client.address}/{name}"
            assert played(address) == own
        assert len({str(assignment) for _, assignment in own}) > (1 if "oort" in name else 0)
        assert_close(result[address], numbers(result[name].arrays))


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
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())
    start(strategy, grid)
    assert len(strategy.rounds[0].decision.round.online_ids) == 10


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
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())
    start(strategy, grid)
    refused = strategy.rounds[0].refused
    assert refused.keys() == {2001, 2002, 2003, 2004, 2005, 2006}
    assert "'stranger'" in refused[2001] and "must be a client" in refused[2001]
    assert "partition-id = 10" in refused[2002] and "below 10" in refused[2002]
    assert "must have client-id or partition-id" in refused[2005]
    assert len(strategy.rounds[0].decision.round.online_ids) == 10
    assert {m.metadata.dst_node_id for m in grid.sent_of("train")} <= set(range(1000, 1010))


def test_two_nodes_that_claim_one_client():
    """The one that was there before keeps it; a client that comes back as another node is taken."""
    scenario = a_scenario()
    grid = a_grid()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())

    asked, changes = (
        [],
        {
            1: lambda: grid.nodes.update({5: Client(3)}),
            2: lambda: grid.nodes.pop(FIRST_NODE + 3),
            3: lambda: grid.nodes.update({FIRST_NODE + 3: Client(3)}),
        },
    )

    def after_round(server_round, arrays):
        asked.append({m.metadata.dst_node_id for m in grid.sent_of("train")})
        grid.sent.clear()
        changes.get(server_round, lambda: None)()

    start(strategy, grid, rounds=4, evaluate_fn=after_round)
    assert FIRST_NODE + 3 in asked[1]
    assert FIRST_NODE + 3 in asked[2] and 5 not in asked[2]
    assert strategy.rounds[1].refused == {5: "client 'c3' is node 1003"}
    assert 5 in asked[3]
    assert 5 in asked[4] and FIRST_NODE + 3 not in asked[4]


def test_what_is_saved_passes_the_check(tmp_path, capsys):
    scenario = a_scenario()
    strategy = StagewiseStrategy(scenario, policy="pool", seed=2, answer_s=0.01)
    start(strategy, a_grid(8), rounds=3)
    strategy.save(tmp_path / "out")
    files = [str(tmp_path / "out" / name) for name in ("scenario.json", "decisions.jsonl")]
    assert main(["check", *files, "--online", str(tmp_path / "out" / "online.jsonl")]) == 0
    lines = (tmp_path / "out" / "online.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [[f"c{i}" for i in range(8)]] * 3


def test_the_mod_answers_the_query_and_lets_all_else_pass():
    grid = a_grid(1)
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge(), answer_s=0.01)
    start(strategy, grid)
    (query,) = grid.sent_of(MESSAGE_TYPE)
    context = context_of({"client-id": "c5"})
    answer = answer_query_mod(query, context, lambda message, context: None)
    assert answer.content["stagewise"]["client-id"] == "c5"
    train = grid.sent_of("train")[0]
    assert answer_query_mod(train, context, lambda message, context: message) is train
