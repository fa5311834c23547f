"""`stagewise simulate`, `resume` and `report`: one line for a mistake, and exit status 2."""

import io
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch")

import stagewise
from small_runs import contents, small_run, small_scenario
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.runs import loggers, progress
from stagewise.runs.config import Replanning
from stagewise.runs.records import RoundRecord
from stagewise.runs.run import load_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("commands") / "run")


def refused(capsys, *arguments: object) -> str:
    """The one line that a mistake gets."""
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert lines[-1].startswith("stagewise: ")
    return lines[-1].removeprefix("stagewise: ")


def test_simulate_is_the_function_of_that_name(run, tmp_path, capsys):
    scenario, out = tmp_path / "scenario.json", tmp_path / "again"
    stagewise.save_scenario(small_scenario(), scenario)
    options = "--dataset digits --policy stagewise-strict --rounds 8 --seed 3 --model mlp"
    options += " --replan-every 3 --plan-delay 2 --workers 1"
    status = main(["simulate", "--scenario", str(scenario), "--out", str(out), *options.split()])
    assert status == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "preparing stagewise-strict"
    assert told[1].startswith("round 1/8  accuracy 0.")
    assert told[8].startswith("round 8/8  accuracy 0.")
    assert told[9].startswith(f"{out}: 8 rounds, accuracy 0.")
    ours, theirs = contents(out), contents(run.path)
    config = ours.pop("config.toml").decode().replace(str(scenario), "given")
    assert config == theirs.pop("config.toml").decode()
    assert ours == theirs


def test_simulate_with_another_forecast(tmp_path):
    out = tmp_path / "run"
    options = "--dataset digits --policy stagewise-strict --rounds 2 --workers 1"
    options += " --replan-every 1 --forecast time-of-day --round-seconds 900"
    scenario = tmp_path / "scenario.json"
    stagewise.save_scenario(small_scenario(), scenario)
    assert main(["simulate", "--scenario", str(scenario), "--out", str(out), *options.split()]) == 0
    config = load_run(out).config
    assert config.replanning == Replanning(every=1, forecast="time-of-day")
    assert config.participation.round_seconds == 900


def test_resume_of_a_finished_run_says_so(run, capsys):
    assert main(["resume", str(run.path), "--workers", "1"]) == 0
    assert f"{run.path}: finished already" in capsys.readouterr().err


def test_resume_of_what_is_no_run(tmp_path, capsys):
    assert refused(capsys, "resume", tmp_path) == (
        f"{tmp_path}: not a run: there must be a config.toml in it"
    )
    assert "not a run" in refused(capsys, "resume", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("config.toml", b"rounds = ", "config.toml: not valid TOML"),
        ("config.toml", b"\xff\xfe", "config.toml: not valid TOML"),
        ("config.toml", b"", "config.toml: Object missing required field"),
        ("checkpoint.safetensors", b"", "checkpoint.safetensors: not a valid checkpoint"),
        ("checkpoint.safetensors", b"\xff" * 50, "checkpoint.safetensors: not a valid checkpoint"),
        ("rounds.jsonl", b"", "rounds.jsonl: has 0 lines: must have at least 8"),
        ("rounds.jsonl", b"{}\n" * 8, "rounds.jsonl: line 1: "),
        ("decisions.jsonl", b"no\n" * 8, "decisions.jsonl: line 1: not valid JSON"),
        ("online.jsonl", b'["nobody"]\n', "online.jsonl: round 0: online: 'nobody' must be"),
        ("scenario.json", b"{}", "scenario.json: "),
        ("plan.json", b"{}", "plan.json: "),
    ],
)
def test_damaged_files(run, tmp_path, capsys, name, content, complaint):
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    (folder / name).write_bytes(content)
    (folder / "chain.jsonl").unlink()  # with it the checkpoint before would be used
    message = refused(capsys, "resume", folder, "--workers", 1)
    assert complaint in message
    assert complaint in refused(capsys, "report", folder, "-o", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_weights_of_another_model(run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    (folder / "chain.jsonl").unlink()
    options = {"policy": "c2e-assoc-only", "replanning": Replanning()}
    other = small_run(tmp_path / "other", rounds=1, dtype="float64", **options)
    shutil.copy(other.path / "checkpoint.safetensors", folder)
    assert refused(capsys, "resume", folder, "--workers", 1) == (
        f"{folder}/checkpoint.safetensors: the weights must be those of the run's model"
    )


def test_simulate_refuses_a_folder_with_a_run(run, capsys):
    message = refused(capsys, "simulate", "--dataset", "digits", "--out", run.path)
    assert message == (
        f"{run.path}: holds a run already; to go on with it: stagewise resume {run.path}"
    )
    assert load_run(run.path).finished


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--participation never", "participation.model: Invalid enum value 'never'"),
        ("--participation trace", "participation.trace: must be given with the model 'trace'"),
        ("--trace t.json", "participation.trace: must only be given with the model 'trace'"),
        ("--remedy pray", "remedy: Invalid enum value 'pray'"),
        ("--replan-every 0", "every = 0: must be at least 1"),
        (
            "--replan-every 2 --forecast arima",
            "replanning.forecast = 'arima': must be one of rolling",
        ),
        (
            "--forecast markov",
            "replanning.forecast = 'markov': there must be a trigger for new plans",
        ),
        ("--replan-every 2 --policy fedcs", "replanning: needs a policy that follows a plan; 'fed"),
        ("--log paper", "logger = 'paper': must be one of tensorboard, mlflow"),
        ("--scenario nothing.json", "nothing.json: cannot be read"),
        ("--model resnet", "model = 'resnet': must be one of"),
        ("--device tpu", "device = 'tpu': must be 'cpu', 'cuda', 'cuda:N' or 'mps'"),
    ],
)
def test_mistakes_in_options(tmp_path, capsys, options, complaint):
    out = tmp_path / "run"
    arguments = ["--dataset", "digits", "--policy", "c2e-assoc-only", "--workers", "1"]
    assert complaint in refused(capsys, "simulate", *arguments, *options.split(), "--out", out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_logger_that_is_not_installed(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(loggers, "find_spec", lambda package: None)
    message = refused(capsys, "simulate", "--log", name, "--out", tmp_path / "run")
    assert message == (
        f"logger = '{name}': its package must be installed: pip install 'stagewise-hfl[{name}]'"
    )


def test_without_torch_it_is_one_line(tmp_path):
    program = (
        "import sys\nfrom importlib import util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        "sys.modules['torch'] = None\n"
        "from stagewise.cli.main import main\n"
        f"sys.exit(main(['simulate', '--out', {str(tmp_path / 'run')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "stagewise: training needs PyTorch: pip install 'stagewise-hfl[simulate]'\n"
    )


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    """What a person sees on 80 columns: round, bar, accuracy, cost and the time left."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress(30, 10) as advance:
        for index in range(10, 30):
            advance(RoundRecord(index, 0.5, 1.0, 123.456, 1.0, 1.0, 20, True, 1.0, 1.0))
    last = screen.getvalue().replace("\r", "\n").splitlines()[-2]
    assert "round 30/30" in last
    assert "accuracy 0.5000  cost 123.5" in last
    assert "0:00:00" in last
    assert "…" not in last


class FakeMLflow:
    """The four functions that are called, and what they were given."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments, **options: self.calls.append((name, arguments, options))


def test_the_mlflow_logger(monkeypatch):
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setattr(loggers, "find_spec", lambda package: True)
    small_run(rounds=3, loggers=["mlflow"])
    names = [name for name, _, _ in fake.calls]
    assert names == ["start_run", "log_params", *["log_metrics"] * 3, "end_run"]
    params, metrics = fake.calls[1][1][0], fake.calls[3][1][0]
    assert params["replanning.every"] == 3
    assert params["policy"] == "stagewise-strict"
    assert metrics["accuracy"] > 0
    assert fake.calls[3][2] == {"step": 1}


def test_a_store_that_mlflow_refuses_is_a_mistake_in_one_line(monkeypatch):
    class Refusing(FakeMLflow):
        def start_run(self, **options):
            raise RuntimeError("the store\nis of the past")

        def get_tracking_uri(self):
            return "file:///mlruns"

    monkeypatch.setitem(sys.modules, "mlflow", Refusing())
    monkeypatch.setattr(loggers, "find_spec", lambda package: True)
    expected = "MLFLOW_TRACKING_URI = 'file:///mlruns': RuntimeError: the store is of the past"
    with pytest.raises(StagewiseError, match=re.escape(expected)):
        small_run(rounds=1, loggers=["mlflow"])


def test_the_tensorboard_logger(tmp_path):
    pytest.importorskip("tensorboard")
    small_run(tmp_path / "run", rounds=3, loggers=["tensorboard"])
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))
