"""Every command from end to end: its files, its exit status and its one line for a mistake."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

import stagewise
from helpers import random_scenario
from references import plain_scenario
from stagewise.cli.main import app, main
from stagewise.policies.registry import policy_names
from stagewise.world.scenario import Limits, Scenario

LIMITS = Limits(kld_max=0.6, data_min=60, kld_risk=0.6, data_risk=0.6)
COMMAND = [sys.executable, "-m", "stagewise"]


@dataclass
class Result:
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys) -> Callable[..., Result]:
    """Run the command line in this process."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return Result(status, streams.out, streams.err)

    return run


def small() -> Scenario:
    return random_scenario(1, 8, 2, 3, limits=LIMITS)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with a scenario, rounds and a plan."""
    monkeypatch.chdir(tmp_path)
    scenario = small()
    stagewise.save_scenario(scenario, "s.json")
    stagewise.save_scenario(scenario, "s.safetensors")
    stagewise.save_rounds(stagewise.participation.bernoulli(scenario, 4, 0), "rounds.jsonl")
    stagewise.save_plan(stagewise.plan(scenario, method="paper", seed=2), "plan.json")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def assert_mistake(result: Result, *parts: str) -> None:
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("stagewise: ")
    for part in parts:
        assert part in result.err


def test_the_whole_way(run, tmp_path, monkeypatch):
    """scenario, availability, plan, check-plan, decide, check, compare: as in the manual."""
    monkeypatch.chdir(tmp_path)
    size = ("--clients", 30, "--edges", 2)
    assert run("scenario", "numeric", *size, "--data-min", 1200, "-o", "s.json").status == 0
    assert run("availability", "s.json", "--rounds", 3, "--seed", 1, "-o", "r.jsonl").status == 0
    made = run("plan", "s.json", "-o", "plan.json", "--method", "paper", "--seed", 3)
    assert (made.status, made.out) == (0, "")
    assert "long-term clients" in made.err
    assert run("check-plan", "s.json", "plan.json") == Result(0, "plan: everything is true\n", "")
    decided = run("decide", "s.json", "plan.json", "--online", "r.jsonl", "-o", "d.jsonl")
    assert decided == Result(0, "", "")
    checked = run("check", "s.json", "d.jsonl", "--online", "r.jsonl")
    assert checked == Result(0, "3 decisions: everything is true\n", "")
    table = run("compare", "s.json", "--online", "r.jsonl", "--methods", "fedcs,c2e-assoc-only")
    assert table.status == 0
    assert "fedcs" in table.out
    assert sorted(files(tmp_path)) == ["d.jsonl", "plan.json", "r.jsonl", "s.json"]


@pytest.mark.parametrize("risk", ["exact", "sampled", "markov"])
@pytest.mark.parametrize("method", ["paper", "local-search"])
def test_plan(run, folder, method, risk):
    options = ("--method", method, "--risk", risk, "--seed", 4)
    assert run("plan", "s.json", "-o", "p.json", *options).status == 0
    scenario = small()
    written = json.loads((folder / "p.json").read_text())
    expected = stagewise.plan(scenario, method=method, risk=risk, seed=4)
    assert written["assignment"] == expected.assignment
    assert written["objective"] == expected.objective
    assert written["feasible"] == expected.feasible
    assert (written["method"], written["seed"]) == (method, 4)
    assert run("check-plan", "s.json", "p.json", "--risk", risk).status == 0


def test_the_binary_twin_is_the_same_scenario(run, folder):
    assert run("plan", "s.safetensors", "-o", "p.json", "--method", "paper").status == 0
    assert run("check-plan", "s.safetensors", "p.json").status == 0
    # The plan belongs to the scenario, not to the form of its file.
    assert run("check-plan", "s.json", "p.json").status == 0
    assert (
        run("decide", "s.safetensors", "p.json", "--online", "rounds.jsonl", "-o", "d").status == 0
    )


@pytest.mark.parametrize("method", policy_names())
def test_solve_by_every_method(run, folder, method):
    solved = run("solve", "s.json", "--online", "rounds.jsonl", "-o", "d.jsonl", "--method", method)
    assert solved == Result(0, "", "")
    made = lines(folder / "d.jsonl")
    assert [line["round"] for line in made] == [0, 1, 2, 3]
    assert {line["format"] for line in made} == {"stagewise-decision/1"}
    assert {line["method"] for line in made} == {method}
    assert run("check", "s.json", "d.jsonl", "--online", "rounds.jsonl").status == 0


def test_solve_with_a_time_limit_and_a_seed(run, folder):
    options = ("--method", "local-search", "--seconds", "0.001", "--seed", "9")
    assert run("solve", "s.json", "--online", "rounds.jsonl", "-o", "d", *options).status == 0
    assert run("check", "s.json", "d", "--online", "rounds.jsonl").status == 0


@pytest.mark.parametrize("mode", ["strict", "flexible"])
@pytest.mark.parametrize("method", ["ccu", "repair"])
@pytest.mark.parametrize("remedy", [None, "drop", "reweight", "lend"])
def test_decide(run, folder, method, mode, remedy):
    options = ["--mode", mode, "--method", method]
    options += [] if remedy is None else ["--remedy", remedy]
    decided = run(
        "decide", "s.json", "plan.json", "--online", "rounds.jsonl", "-o", "d.jsonl", *options
    )
    assert decided == Result(0, "", "")
    scenario = stagewise.load_scenario("s.json")
    plan = stagewise.load_plan("plan.json", scenario)
    rounds = stagewise.load_rounds("rounds.jsonl", scenario)
    expected = stagewise.decide(plan, rounds, method=method, mode=mode, remedy=remedy)
    for made, decision in zip(lines(folder / "d.jsonl"), expected, strict=True):
        assert made["round"] == decision.round.index
        assert made["assignment"] == decision.assignment
        assert made["method"] == method
        assert made["violations"] == list(decision.violations)
    assert run("check", "s.json", "d.jsonl", "--online", "rounds.jsonl").status == 0


def test_decide_follows_the_plans_method(run, folder):
    for planner, method in (("paper", "ccu"), ("local-search", "repair")):
        run("plan", "s.json", "-o", "p.json", "--method", planner)
        run("decide", "s.json", "p.json", "--online", "rounds.jsonl", "-o", "d.jsonl")
        assert {line["method"] for line in lines(folder / "d.jsonl")} == {method}


@pytest.mark.parametrize(
    "trigger",
    [
        ("--replan-every", 1),
        ("--replan-cost", 0.01),
        ("--replan-change", 1.01),
        ("--replan-absence", 0.0),
    ],
)
def test_decide_with_replanning(run, folder, monkeypatch, trigger):
    """Twelve fluctuating rounds, more than a window; the plan that comes is another one."""
    orders = []
    close = stagewise.Replanned.close

    def noting(policy):
        orders.extend(reason for _, reason in policy.orders)
        close(policy)

    monkeypatch.setattr(stagewise.Replanned, "close", noting)
    run("availability", "s.json", "--rounds", 12, "--fluctuate", "-o", "many.jsonl")
    files_ = ("s.json", "plan.json", "--online", "many.jsonl")
    assert run("decide", *files_, "-o", "plain.jsonl").status == 0
    assert orders == []
    assert run("decide", *files_, "-o", "d.jsonl", *trigger).status == 0
    assert set(orders) == {trigger[0].removeprefix("--replan-")}
    assert run("check", "s.json", "d.jsonl", "--online", "many.jsonl").status == 0
    assert run("decide", *files_, "-o", "again.jsonl", *trigger).status == 0
    assert timeless(folder / "again.jsonl") == timeless(folder / "d.jsonl")


def timeless(path: Path) -> list[dict]:
    return [{k: v for k, v in line.items() if k != "decision_ms"} for line in lines(path)]


def tamper(path: Path, change: Callable[[dict], object], line: int = 0) -> None:
    records = lines(path)
    change(records[line])
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.update(objective=r["objective"] * 1.001), "objective"),
        (lambda r: r.update(feasible=not r["feasible"]), "feasible"),
        (lambda r: r["edges"][0].update(data=1), "edges[es0].data = 1"),
        (lambda r: r["assignment"].update(c99="es0"), "'c99'"),
        (lambda r: r.update(round=3), "round 3: decided more than once"),
    ],
)
def test_check_finds_a_tampered_decision(run, folder, change, told):
    run("solve", "s.json", "--online", "rounds.jsonl", "-o", "d.jsonl", "--method", "fedcs")
    tamper(folder / "d.jsonl", change)
    found = run("check", "s.json", "d.jsonl", "--online", "rounds.jsonl")
    assert found.status == 1
    assert found.err == ""
    assert told in found.out
    assert "everything is true" not in found.out


def test_check_plan_finds_a_tampered_plan(run, folder):
    plan = json.loads((folder / "plan.json").read_text())
    plan["continuity"] += 0.01
    (folder / "plan.json").write_text(json.dumps(plan))
    found = run("check-plan", "s.json", "plan.json")
    assert (found.status, found.err) == (1, "")
    assert found.out.count("\n") == 1
    assert "continuity" in found.out


def test_check_writes_a_line_for_each_thing_whatever_the_ids(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = plain_scenario([[60, 60], [60, 60]], [[0], [1]], edge_ids=["a\nb", "c\u2028: d"])
    stagewise.save_scenario(scenario, "s.json")
    Path("r.jsonl").write_text('["c0", "c1"]')
    run("solve", "s.json", "--online", "r.jsonl", "-o", "d.jsonl", "--method", "fedcs")
    assert run("check", "s.json", "d.jsonl", "--online", "r.jsonl").status == 0
    for edge in (0, 1):
        tamper(tmp_path / "d.jsonl", lambda r, edge=edge: r["edges"][edge].update(data=7))
    found = run("check", "s.json", "d.jsonl", "--online", "r.jsonl")
    assert found.status == 1
    assert found.out.count("\n") == len(found.out.splitlines()) == 2


def test_more_data_at_an_edge_than_a_client_can_have(run, tmp_path, monkeypatch):
    """Three clients of two billion samples each: what is written can be read."""
    monkeypatch.chdir(tmp_path)
    limits = Limits(kld_max=1, data_min=3e9)
    scenario = plain_scenario([[10**9, 10**9]] * 3, [[0]] * 3, capacity=[3], limits=limits)
    stagewise.save_scenario(scenario, "s.json")
    Path("r.jsonl").write_text('["c0", "c1", "c2"]')
    run("solve", "s.json", "--online", "r.jsonl", "-o", "d.jsonl", "--method", "fedcs")
    assert lines(tmp_path / "d.jsonl")[0]["edges"][0]["data"] == 6 * 10**9
    assert run("check", "s.json", "d.jsonl", "--online", "r.jsonl").status == 0


def feed(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_standard_input_and_output(run, folder, monkeypatch):
    """Every file may be `-`; the bytes are those of the file."""
    content = files(folder)
    feed(monkeypatch, content["s.json"])
    drawn = run("availability", "-", "--rounds", 4, "-o", "-")
    assert (drawn.status, drawn.out.encode()) == (0, content["rounds.jsonl"])
    feed(monkeypatch, content["s.json"])
    planned = run("plan", "-", "--method", "paper", "--seed", 2, "-o", "-")
    expected, printed = json.loads(content["plan.json"]), json.loads(planned.out)
    assert {**printed, "plan_ms": 0} == {**expected, "plan_ms": 0}
    feed(monkeypatch, content["plan.json"])
    decided = run("decide", "s.json", "-", "--online", "rounds.jsonl", "-o", "-")
    assert decided.status == 0
    assert len(decided.out.splitlines()) == 4
    feed(monkeypatch, content["rounds.jsonl"])
    solved = run("solve", "s.json", "--online", "-", "-o", "-", "--method", "fedcs")
    assert solved.status == 0
    feed(monkeypatch, solved.out.encode())
    assert run("check", "s.json", "-", "--online", "rounds.jsonl").status == 0
    feed(monkeypatch, b"{")
    assert_mistake(run("check-plan", "s.json", "-"), "-: not valid JSON")
    assert files(folder) == content


def test_compare_as_json(run, folder):
    names = ["fedcs", "stagewise-paper"]
    options = ("--online", "rounds.jsonl", "--methods", " fedcs, stagewise-paper", "--json")
    compared = run("compare", "s.json", *options)
    summaries = json.loads(compared.out)
    assert [summary["method"] for summary in summaries] == names
    assert all(summary["rounds"] == 4 for summary in summaries)
    assert summaries[0]["plan_ms"] is None
    assert summaries[1]["plan_ms"] > 0
    expected = stagewise.compare(
        small(), stagewise.load_rounds("rounds.jsonl", small()), methods=names
    )
    assert [s["objective"] for s in summaries] == [s.objective for s in expected]


def test_compare_in_several_processes(run, folder):
    names = "fedcs,c2e-greedy-assoc"
    options = ("compare", "s.json", "--online", "rounds.jsonl", "--methods", names, "--json")
    alone, together = run(*options), run(*options, "--workers", 2)
    assert together.status == 0
    times = ("decision_ms_median", "decision_ms_max")
    assert [{**s, **dict.fromkeys(times)} for s in json.loads(together.out)] == [
        {**s, **dict.fromkeys(times)} for s in json.loads(alone.out)
    ]


def test_methods(run):
    told = run("methods").out.splitlines()
    blank = told.index("")
    assert [line.split()[0] for line in told[:blank]] == policy_names()
    assert "random-k" in told[blank + 1] and "hashed" in told[blank + 2]
    assert "pool-flexible (or pool)" in told
    assert json.loads(run("methods", "--json").out) == policy_names()


def test_version_and_help(run):
    assert run("--version").out == f"{stagewise.__version__}\n"
    told = run("--help")
    assert told.status == 0
    for command in ("plan", "decide", "solve", "check", "compare", "scenario", "availability"):
        assert command in told.out
        assert run(command, "--help").status == 0
    assert run().status == 2


def every_command(command, words=()):
    """The words of each command with what Click has of it, those below groups included."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    context = command.make_context("stagewise", [], resilient_parsing=True)
    for name in command.list_commands(context):
        yield from every_command(command.get_command(context, name), (*words, name))


def test_help_says_of_every_argument_and_option_what_it_is(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # no line is broken
    commands = list(every_command(get_command(app)))
    assert len(commands) > 30
    for words, command in commands:
        told = run(*words, "--help").out
        for parameter in command.params:
            assert parameter.help and parameter.help in told, (words, parameter.name)


ROUNDS = ("--online", "rounds.jsonl")
MISTAKES: list[tuple[list[object], list[str]]] = [
    (["plan", "missing.json", "-o", "out"], ["missing.json: cannot be read: No such file"]),
    (["plan", ".", "-o", "out"], [".: cannot be read: Is a directory"]),
    (["plan", "rounds.jsonl", "-o", "out"], ["rounds.jsonl: Expected `object`, got `array`"]),
    (["plan", "plan.json", "-o", "out"], ["plan.json: format = 'stagewise-plan/1'"]),
    (["plan", "s.json", "-o", "out", "--method", "oracle"], ["method = 'oracle': must be one of"]),
    (["plan", "s.json", "-o", "out", "--risk", "none"], ["risk = 'none': must be one of"]),
    (["plan", "s.json", "-o", "out", "--seed", "-1"], ["seed = -1: must be at least 0"]),
    (["plan", "s.json", "-o", "out", "--seed", "x"], ["'--seed'", "integer"]),
    (["plan", "s.json", "-o", "out", "--seconds", "0"], ["seconds = 0.0"]),
    (["plan", "s.json", "-o", "out", "--seconds", "nan"], ["seconds = nan"]),
    (["plan", "s.json"], ["--output"]),
    (["plan", "-o", "out"], ["Missing argument"]),
    (["plan", "s.json", "-o", "out", "--wish", "1"], ["--wish"]),
    (
        ["plan", "s.json", "-o", "no/such/folder"],
        ["no/such/folder.library.safetensors: cannot be written"],
    ),
    (["decide", "s.json", "plan.json", *ROUNDS, "-o", "out", "--mode", "x"], ["mode = 'x'"]),
    (["decide", "s.json", "plan.json", *ROUNDS, "-o", "out", "--method", "x"], ["method = 'x'"]),
    (["decide", "s.json", "plan.json", *ROUNDS, "-o", "out", "--remedy", "x"], ["remedy = 'x'"]),
    (
        ["decide", "s.json", "s.json", *ROUNDS, "-o", "out"],
        ["s.json: format = 'stagewise-scenario/1'"],
    ),
    (["decide", "s.json", "plan.json", "--online", "s.json", "-o", "out"], ["s.json: line 1"]),
    (["decide", "s.json", "plan.json", *ROUNDS, "-o", "out", "--replan-every", 0], ["every = 0"]),
    (
        ["decide", "s.json", "plan.json", *ROUNDS, "-o", "out", "--replan-change", "0.5"],
        ["change_factor = 0.5"],
    ),
    (["decide", "s.json", "plan.json", "-o", "out"], ["--online"]),
    (["solve", "s.json", *ROUNDS, "-o", "out", "--method", "exakt"], ["method = 'exakt'"]),
    (["solve", "s.json", *ROUNDS, "-o", "out"], ["--method"]),
    (["solve", "s.json", *ROUNDS, "-o", "out", "--method", "fedcs", "--seed", -2], ["seed = -2"]),
    (["solve", "s.json", "--online", "gone", "-o", "out", "--method", "fedcs"], ["gone: cannot"]),
    (["check", "s.json", "plan.json", *ROUNDS], ["plan.json: line 1"]),
    (["check-plan", "s.json", "plan.json", "--risk", "x"], ["risk = 'x'"]),
    (["compare", "s.json", *ROUNDS, "--methods", "fedcs,x"], ["method = 'x'"]),
    (["compare", "s.json", *ROUNDS, "--methods", ""], ["method = ''"]),
    (["compare", "s.json", *ROUNDS, "--workers", 0], ["--workers = 0: must be at least 1"]),
    (["availability", "s.json", "--rounds", 0, "-o", "out"], ["rounds = 0"]),
    (["availability", "s.json", "--rounds", 2, "-o", "out", "--model", "x"], ["model = 'x'"]),
    (["scenario", "numeric", "--clients", 0, "-o", "out"], ["clients = 0"]),
    (["scenario", "numeric", "--kld-max", "-1", "-o", "out"], ["kld_max = -1"]),
    (["scenario", "nowhere"], ["nowhere"]),
    (["simulte"], ["simulte"]),
]


@pytest.mark.parametrize(
    ("arguments", "told"), MISTAKES, ids=[" ".join(map(str, case[0])) for case in MISTAKES]
)
def test_a_mistake_is_one_line_and_touches_nothing(run, folder, arguments, told):
    before = files(folder)
    assert_mistake(run(*arguments), *told)
    assert files(folder) == before
    # Nor is an output file that exists already.
    (folder / "out").write_bytes(b"old")
    assert_mistake(run(*arguments), *told)
    assert files(folder) == {**before, "out": b"old"}


def test_a_plan_for_another_scenario(run, folder):
    stagewise.save_scenario(random_scenario(2, 8, 2, 3, limits=LIMITS), "other.json")
    files_ = ("other.json", "plan.json")
    assert_mistake(
        run("decide", *files_, "--online", "rounds.jsonl", "-o", "d"), "plan.json", "sha256"
    )
    assert run("check-plan", *files_).status == 1


def test_a_round_with_an_unknown_client(run, folder):
    (folder / "rounds.jsonl").write_text('["c0"]\n["c1", "c99"]\n')
    told = run("solve", "s.json", *ROUNDS, "-o", "d", "--method", "fedcs")
    assert_mistake(told, "rounds.jsonl: round 1: online: 'c99' must be the id of a client")


def test_no_rounds_give_no_decisions(run, folder):
    (folder / "rounds.jsonl").write_text("")
    assert run("solve", "s.json", *ROUNDS, "-o", "d", "--method", "fedcs").status == 0
    assert (folder / "d").read_bytes() == b""
    assert run("check", "s.json", "d", *ROUNDS).status == 0
    assert run("compare", "s.json", *ROUNDS, "--methods", "fedcs").status == 0


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["plan", "s.json", "-o", "out"], "stagewise.plan"),
        (
            ["solve", "s.json", *ROUNDS, "-o", "out", "--method", "fedcs"],
            "stagewise.loop.make_decision",
        ),
        (
            ["decide", "s.json", "plan.json", *ROUNDS, "-o", "out"],
            "stagewise.PlanPolicy.decide",
        ),
        (["plan", "s.json", "-o", "out", "--method", "paper"], "os.fsync"),
    ],
)
@pytest.mark.parametrize("before", [None, b"old"])
def test_an_interruption_writes_nothing(run, folder, monkeypatch, arguments, target, before):
    def interrupted(*a: object, **k: object) -> None:
        raise KeyboardInterrupt

    if before is not None:
        (folder / "out").write_bytes(before)
    content = files(folder)
    monkeypatch.setattr(target, interrupted)
    result = run(*arguments)
    assert (result.status, result.out) == (130, "")
    assert result.err == "stagewise: interrupted; nothing was written\n"
    assert files(folder) == content


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_when_the_machine_gives_up(run, folder, monkeypatch, error):
    def fails(*a: object, **k: object) -> None:
        raise error

    monkeypatch.setattr("os.fsync", fails)
    content = files(folder)
    assert_mistake(run("plan", "s.json", "-o", "out", "--method", "paper"))
    assert files(folder) == content


def test_the_installed_command(folder):
    """In a process of its own: the same bytes as in this one, and its exit statuses."""
    command = Path(sys.executable).with_name("stagewise")
    if not command.exists():
        pytest.skip("the package is not installed with its command")
    solve = ["solve", "s.json", "--online", "rounds.jsonl", "--method", "fedcs", "-o"]
    done = subprocess.run([command, *solve, "d.jsonl"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert main([*solve, "same.jsonl"]) == 0
    assert timeless(folder / "d.jsonl") == timeless(folder / "same.jsonl")
    tamper(folder / "d.jsonl", lambda record: record.update(objective=0.5))
    check = [command, "check", "s.json", "d.jsonl", "--online", "rounds.jsonl"]
    assert subprocess.run(check, capture_output=True).returncode == 1
    wrong = subprocess.run([command, "check", "s.json"], capture_output=True)
    assert wrong.returncode == 2
    assert wrong.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_is_no_disaster(folder):
    """`stagewise ... -o - | head -1`."""
    many = "\n".join(["[]"] * 2_000)
    (folder / "many.jsonl").write_text(many)
    solve = ["solve", "s.json", "--online", "many.jsonl", "--method", "c2e-assoc-only", "-o", "-"]
    with subprocess.Popen(
        [*COMMAND, *solve], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 2


SLOW_SOLVE = """
import sys, time
import stagewise.loop
true, made = stagewise.loop.make_decision, []

def noting(*arguments, **options):
    made.append(true(*arguments, **options))
    if len(made) == 2:
        print("two rounds are decided", flush=True)
        while True:
            time.sleep(0.1)
    return made[-1]

stagewise.loop.make_decision = noting
from stagewise.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_process_killed_in_the_middle_leaves_nothing_behind(folder, before, number):
    """A file is begun only when all of it is known, so that not even a hidden part is left."""
    if before is not None:
        (folder / "d.jsonl").write_bytes(before)
    content = files(folder)
    solve = ["solve", "s.json", "--online", "rounds.jsonl", "--method", "fedcs", "-o", "d.jsonl"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_SOLVE, *solve], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"two rounds are decided\n"
        process.send_signal(number)
        told = process.stderr.read()
        status = process.wait()
    if number == signal.SIGINT:
        assert status == 130
        assert told == b"stagewise: interrupted; nothing was written\n"
    else:
        assert status == -signal.SIGKILL
    assert files(folder) == content


SLOW_WRITE = """
import os, sys, time

def slow(descriptor):
    print("all is written, nothing is renamed", flush=True)
    while True:
        time.sleep(0.1)

os.fsync = slow
from stagewise.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.processes
def test_a_process_killed_while_it_writes_leaves_a_hidden_part_and_the_old_file(folder):
    (folder / "d.jsonl").write_bytes(b"old")
    content = files(folder)
    solve = ["solve", "s.json", "--online", "rounds.jsonl", "--method", "fedcs", "-o", "d.jsonl"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITE, *solve], stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = files(folder)
    assert {name: left.pop(name) for name in content} == content
    (part,) = left
    assert part.startswith(".d.jsonl.")
    assert part.endswith(".part")
    # It is in nobody's way: the next run writes the file.
    assert main(solve) == 0
    assert len(lines(folder / "d.jsonl")) == 4
