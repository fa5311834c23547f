"""`stagewise deploy up` and `status` from the command line, with everything in one process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stagewise.cli import deploy_init_command
from stagewise.cli.main import main
from stagewise.deploy.starting import beside
from stagewise.runs.directory import RunDirectory

QUICK = ["--design", "in-process", "--dataset", "digits", "--policy", "fedcs", "--polls", "0"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run that is over."""
    out = tmp_path_factory.mktemp("deploy") / "run"
    assert main(["deploy", "up", "--out", str(out), *QUICK, "--rounds", "2"]) == 0
    return out


@pytest.mark.parametrize(
    "command",
    [
        "up --local --out run",
        "status run",
        "init --cloud 10.0.0.1 --edge es0=10.0.0.2 --client c0=10.0.0.3 --out site",
        "doctor site",
        "revoke site c0",
        "rotate site c0",
        "renew site",
        "remove-client site c0",
        "add-client site c0=10.0.0.3",
    ],
)
def test_without_the_extra_every_command_says_how_to_get_it(command, monkeypatch, capsys):
    monkeypatch.setattr(deploy_init_command, "find_spec", lambda package: None)
    assert main(["deploy", *command.split()]) == 2
    needed = "stagewise: deploy needs Flower: pip install 'stagewise-hfl[deploy]'\n"
    assert capsys.readouterr().err == needed


def test_a_run_is_complete_and_true(run, capsys):
    files = [str(run / name) for name in ("scenario.json", "decisions.jsonl", "online.jsonl")]
    assert main(["check", *files[:2], "--online", files[2]]) == 0
    assert len((run / "live.jsonl").read_text().splitlines()) == 2
    assert (run / "checkpoint.safetensors").exists()


def test_status_for_people_and_for_programs(run, capsys):
    assert main(["deploy", "status", str(run)]) == 0
    text = capsys.readouterr().out
    assert "design in-process, finished; 2 of 2 rounds complete" in text
    assert "clients up: 8 of 8" in text
    assert "adds up" in text
    assert main(["deploy", "status", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["complete"] == 2
    assert found["asked"] == sum(found["fates"].values()) == found["fates"]["counted"]
    assert set(found["edges"]) == {"es0", "es1"}


def test_a_run_that_is_over_stays_as_it_is(run):
    before = (run / "checkpoint.safetensors").read_bytes()
    assert main(["deploy", "up", "--out", str(run)]) == 0
    assert main(["deploy", "up", "--out", str(run), *QUICK, "--rounds", "2"]) == 0
    assert (run / "checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("option", "value", "begun"),
    [
        ("--rounds", "3", "2"),
        ("--policy", "pool", "'fedcs'"),
        ("--design", "F", "'in-process'"),
        ("--clients", "9", "8"),
        ("--deadline-factor", "4", "2.0"),
        ("--remedy", "drop", "None"),
        ("--data-dir", "/elsewhere", "None"),
    ],
)
def test_a_run_goes_on_as_it_was_begun_or_not_at_all(run, capsys, option, value, begun):
    assert main(["deploy", "up", "--out", str(run), option, value]) == 2
    error = capsys.readouterr().err
    assert f"must be {begun}, as the run in {run} was begun" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--design", "G"], "design = 'G': "),
        (["--remedy", "pray"], "remedy = 'pray': "),
        (["--local", "--site", "x"], "local: must not be given with a site"),
        (["--deadline-factor", "0.5"], "deadline_factor = 0.5: must be"),
        (["--polls", "-1"], "polls = -1: must be"),
        (["--clients", "0"], "clients = 0: must be"),
        (["--policy", "none"], "'none': must be one of"),
        (["--replan-every", "2"], "replanning: needs a policy that follows a plan; 'fedcs'"),
        (["--remedy", "lend"], "remedy = 'lend': needs a policy that follows a plan; 'fedcs'"),
        (["--scenario", "missing.json"], "missing.json: cannot be read"),
        (["--site", "missing"], "missing/site.toml: cannot be read"),
        (["--design", "H"], "local: must be given for processes on this machine, or a site"),
        (["--design", "F"], "local: must be given for processes on this machine, or a site"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, capsys, options, error):
    out = tmp_path / "run"
    assert main(["deploy", "up", "--out", str(out), *QUICK, *options]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.splitlines()[-1].startswith("stagewise: ")
    assert "Traceback" not in printed
    assert not out.exists()


def test_a_run_goes_on_with_its_own_scenario_or_not_at_all(run, tmp_path, capsys):
    again = ["deploy", "up", "--out", str(run), "--scenario"]
    assert main([*again, str(run / "scenario.json")]) == 0
    other = json.loads((run / "scenario.json").read_text())
    other["clients"][0]["cpu_hz"] *= 2
    (tmp_path / "other.json").write_text(json.dumps(other))
    capsys.readouterr()
    assert main([*again, str(tmp_path / "other.json")]) == 2
    assert "must be the one the run in" in capsys.readouterr().err


def test_the_folder_one_is_in(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "up", "--out", ".", *QUICK]) == 2
    assert "out = '.': must end in the name of a new folder" in capsys.readouterr().err
    monkeypatch.chdir(run)
    assert main(["deploy", "up", "--out", "."]) == 0
    assert beside(Path()) == run.with_name(f"{run.name}.site")


def test_a_run_that_is_killed_as_it_appears_can_go_on(tmp_path, monkeypatch):
    """Whenever there is a config.toml, there is a deploy.json."""
    out = tmp_path / "run"
    create = RunDirectory.create

    def killed(*arguments):
        create(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "create", killed)
        assert main(["deploy", "up", "--out", str(out), *QUICK, "--rounds", "1"]) == 130
    assert (out / "config.toml").exists()
    assert main(["deploy", "up", "--out", str(out)]) == 0


def test_status_of_something_else(tmp_path, capsys):
    assert main(["deploy", "status", str(tmp_path)]) == 2
    assert "not a run" in capsys.readouterr().err


def test_a_run_of_the_simulator_is_no_deployment(run, tmp_path, capsys):
    for name in ("config.toml", "scenario.json", "decisions.jsonl", "rounds.jsonl", "online.jsonl"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    assert main(["deploy", "status", str(tmp_path)]) == 2
    assert "deploy.json" in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on_and_so_it_does(tmp_path, capsys, monkeypatch):
    from stagewise.deploy.in_process import InProcess

    train = InProcess.train_round

    def interrupted(self, order):
        if order.round == 1:
            raise KeyboardInterrupt
        return train(self, order)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "train_round", interrupted)
        assert main(["deploy", "up", "--out", str(out), *QUICK, "--rounds", "2"]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f"to go on: stagewise deploy up --out {out}")
    assert main(["deploy", "status", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["phase"] == "stopped"
    assert main(["deploy", "up", "--out", str(out)]) == 0
    assert main(["deploy", "status", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["phase"], found["complete"], found["adds_up"]) == ("finished", 2, True)


def test_help_needs_neither_flower_nor_pytorch():
    script = """
import sys
from stagewise.cli.main import main
main(["deploy", "up", "--help"])
sys.exit(any(name in sys.modules for name in ("torch", "flwr", "numpy")))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "--deadline-factor" in found.stdout
