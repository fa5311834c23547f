"""`stagewise.client`: a policy like any other, over real HTTP."""

import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stagewise
from serve_cases import (
    create,
    decided_in_process,
    scenario_file,
    serving,
    small_rounds,
    small_scenario,
)
from small_runs import contents, small_run
from stagewise.client import Federation
from stagewise.client.wire import outcome_of_report, report_of
from stagewise.errors import StagewiseError
from stagewise.outcomes import expected_outcome
from stagewise.runs.config import Replanning
from stagewise.simulator.start import resume
from stagewise.testing import assert_conforms

DOCS = Path(__file__).parents[2] / "docs" / "serve.md"


@pytest.mark.parametrize("policy", ["c2e-assoc-only", "power-of-choice,k=5"])
def test_it_conforms(tmp_path, policy):
    with serving(str(tmp_path / "a.db")) as client:

        def make(scenario, *, seed, seconds):
            address = f"{client.address}/{policy}"
            return Federation(address, scenario, seed=seed, seconds=seconds)

        assert_conforms(make, seeds=1)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("pool", ""),
        ("oort,k=8+nearest", ""),
        ("local-search", "?remedy=reweight"),
        ("pool-to-target", ""),
        ("fedcs+label-weights", "?remedy=reweight"),
    ],
)
def test_decisions_are_those_of_the_policy_itself(tmp_path, policy, options):
    scenario = small_scenario()
    rounds = small_rounds(scenario, 4)
    rounds[1] = replace(rounds[1], up=scenario.links.edge != 0)
    rounds[2] = replace(rounds[2], delay_s=np.where(scenario.links.edge, np.nan, 0.7))
    rounds[3] = replace(rounds[3], online=np.arange(30) < 4)  # too few: infeasible
    own = stagewise.make_policy(policy, scenario)
    if options:
        own = stagewise.Remedied(own, "reweight")
    expected = [played.decision for played in stagewise.run_rounds(own, rounds)]
    with serving(str(tmp_path / "a.db")) as client:
        asked = stagewise.make_policy(f"{client.address}/{policy}{options}", scenario)
        asked.name = own.title
        found = [played.decision for played in stagewise.run_rounds(asked, rounds)]
        asked.close()
    assert decided_in_process(found) == decided_in_process(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.answer.named_weights(scenario) == theirs.answer.named_weights(scenario)


def test_what_a_service_answers_is_not_exchanged(tmp_path):
    """Label balance would: the service refuses outcomes of what it did not answer."""
    with serving(str(tmp_path / "a.db")) as client:
        asked = stagewise.make_policy(f"{client.address}/pool", small_scenario())
        with (
            closing(asked),
            pytest.raises(StagewiseError, match="whose answers may be changed"),
        ):
            stagewise.LabelBalanced(stagewise.Remedied(asked, "reweight"))


def test_an_outcome_survives_the_way_there(tmp_path):
    scenario = small_scenario()
    [decision] = stagewise.solve(scenario, small_rounds(scenario, 1), "fedcs")
    outcome = expected_outcome(decision)
    count = len(outcome.clients)
    clients = replace(
        outcome.clients,
        loss_before=np.random.default_rng(0).random(count),
        seconds=np.where(np.arange(count) % 2, np.nan, 0.1),
        fate=("late",) + ("counted",) * (count - 1),
    )
    outcome = replace(outcome, clients=clients, accuracy=0.25)
    again = outcome_of_report(decision, report_of(outcome))
    for part in ("clients", "edges"):
        for name, value in vars(getattr(outcome, part)).items():
            np.testing.assert_array_equal(value, getattr(getattr(again, part), name))
    assert (again.accuracy, again.loss) == (0.25, None)


def test_a_run_under_a_service_is_a_run_and_can_be_resumed(tmp_path):
    options = {"rounds": 4, "replanning": Replanning()}
    whole = small_run(tmp_path / "own", policy="oort,k=4+nearest", **options)
    with serving(str(tmp_path / "a.db")) as client:
        address = f"{client.address}/oort,k=4+nearest"
        small_run(tmp_path / "asked", policy=address, **(options | {"rounds": 2}))
        config = tmp_path / "asked/config.toml"
        config.write_text(config.read_text().replace("rounds = 2", "rounds = 4"))
        online = (tmp_path / "own/online.jsonl").read_bytes()
        (tmp_path / "asked/online.jsonl").write_bytes(online)
        run = resume(tmp_path / "asked")
        assert len(client.get("/v1/federations").json()) == 1
    assert [d.assignment for d in run.decisions] == [d.assignment for d in whole.decisions]
    assert [r.accuracy for r in run.records] == [r.accuracy for r in whole.records]
    assert (
        contents(tmp_path / "asked")["scenario.json"] == contents(tmp_path / "own")["scenario.json"]
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://127.0.0.1/pool", "must be http://HOST:PORT/POLICY"),
        ("http://127.0.0.1:1/pool?colour=red", "'colour' must be one of"),
        ("http://127.0.0.1:1/pool?seconds=x", "must be a number"),
    ],
)
def test_a_wrong_address_is_one_line(address, message):
    with pytest.raises(StagewiseError, match=re.escape(message)):
        stagewise.make_policy(address, small_scenario())


def test_a_service_that_is_away_is_one_line():
    with pytest.raises(StagewiseError, match="does not answer"):
        Federation("http://127.0.0.1:9/pool", small_scenario(), patience_s=0.2)


def test_the_client_in_the_docs(tmp_path):
    """The thirty lines for other languages run as they stand."""
    program = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.S).group(1)
    assert len(program.strip().splitlines()) <= 30
    assert "stagewise" not in re.sub(r"#.*", "", program)
    scenario = small_scenario()
    with serving(str(tmp_path / "a.db")) as client:
        create(client, scenario, name="mine")
        (tmp_path / "s.json").write_bytes(scenario_file(scenario))
        done = subprocess.run(
            [sys.executable, "-c", program, client.address, str(tmp_path / "s.json")],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("train in round") == 3
