"""Thousands of damaged files: each is either still valid or refused in one line, never a crash."""

import contextlib
import copy
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import stagewise
from helpers import cases, random_scenario
from stagewise.cli import main as command_line
from stagewise.world.scenario import Limits

SCENARIOS, EXTREMES, ROUNDS, PLANS, DECISIONS = map(cases, (4000, 1000, 2000, 2200, 2500))


class Raw(str):
    """A token that goes into the file as it stands, valid JSON or not."""


class Pairs(list):
    """An object as a list of (key, value), so that a key may occur twice."""


ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    -0.0,
    -1e-300,
    5e-324,
    1e-308,
    1e-200,
    1e200,
    1e300,
    1e308,
    -1e308,
    2**31 - 1,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    Raw("1e999"),
    Raw("-1e999"),
    Raw("NaN"),
    Raw("Infinity"),
    Raw("-Infinity"),
    Raw("nan"),
    Raw("01"),
    Raw("+1"),
    Raw("0x10"),
    Raw("9" * 400),
    Raw("9" * 5000),
    Raw('"\\ud800"'),
    Raw('"\\u0000"'),
    Raw("'c0'"),
    Raw(""),
    Raw("[" * 3000 + "]" * 3000),
    Raw('{"a":' * 3000 + "1" + "}" * 3000),
    "",
    " ",
    "c0",
    "c1",
    "es0",
    "es1",
    "c99",
    "es9",
    "-",
    "\n",
    "ü\u2028\x7f",
    "x" * 3000,
    "0101",
    "stagewise-plan/1",
    [],
    [[]],
    [[[[1]]]],
    [1, "a", None],
    ["c0", "c0"],
    {},
    {"": ""},
    {"es0": 1e-9},
    {"c0": "es1"},
    {"c0": {"es0": 1e-9}},
]


def thawed(value: Any) -> Any:
    """Nested lists and `Pairs` that a mutation may change in place."""
    if isinstance(value, dict):
        return Pairs([key, thawed(item)] for key, item in value.items())
    if isinstance(value, list):
        return [thawed(item) for item in value]
    return value


def encoded(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(k)}:{encoded(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encoded, value)) + "]"
    return json.dumps(value)


def places(value: Any) -> Iterator[tuple[list, int]]:
    """Every (container, position) in `value`; the position in a `Pairs` is that of a pair."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield value, place
            yield from places(item[1] if isinstance(value, Pairs) else item)


def change_value(rng: random.Random, value: Any) -> None:
    """One structural change somewhere in `value`."""
    container, place = rng.choice(list(places(value)))
    keyed = isinstance(container, Pairs)
    kind = rng.choice(
        ["value", "value", "value", "scale", "extreme", "delete", "rename", "twice", "swap"]
    )
    if kind == "delete":
        del container[place]
    elif kind == "twice":
        container.insert(rng.randrange(len(container) + 1), copy.deepcopy(container[place]))
    elif kind == "swap":
        other = rng.randrange(len(container))
        if keyed:
            pair, another = container[place], container[other]
            pair[1], another[1] = another[1], pair[1]
        else:
            container[place], container[other] = container[other], container[place]
    elif kind == "rename" and keyed:
        old = container[place][0]
        container[place][0] = rng.choice(["", "id", "c99", "es9", "es1", "c1", old + "_", old[:-1]])
    else:
        old = container[place][1] if keyed else container[place]
        new = thawed(rng.choice(ODD_VALUES))
        if kind == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
            new = old * rng.choice([-1, 0.1, 0.999, 1.001, 3, 1e6, 1e-6, 1e150])
        if kind == "extreme" and isinstance(old, int | float):
            new = rng.choice([5e-324, 1e-308, 1e-200, 1e200, 1e300, 1.7e308, 2**31 - 1])
        if keyed:
            container[place][1] = new
        else:
            container[place] = new


def change_bytes(rng: random.Random, content: bytes) -> bytes:
    """Damage of the kind that a disk or an editor does."""
    place = rng.randrange(len(content))
    kind = rng.randrange(8)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return (
            content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
        )
    if kind == 2:
        return content[:place] + bytes([rng.randrange(256)]) + content[place:]
    if kind == 3:
        return content[:place] + content[place + rng.randrange(1, 30) :]
    if kind == 4:
        junk = rng.choice([b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\x00", b"\xf8\x88\x80\x80"])
        return content[:place] + junk + content[place:]
    if kind == 5:
        return rng.choice([b"\xef\xbb\xbf", b" ", b"\n\n", b"[", b"{", b'"']) + content
    if kind == 6:
        return content + rng.choice([b"}", b"]", b",", b"x", b"\n\n", b"\n{}", b"\n[]", content])
    return rng.choice([b"", b"\n", b"null", b"[]", b"{}", b'""', b"0", b"[" * 9999, b"\x00" * 99])


def damaged(rng: random.Random, lines: list[Any]) -> bytes:
    """The file of `lines` after one to three changes."""
    if rng.random() < 0.3:
        return change_bytes(rng, "\n".join(map(json.dumps, lines)).encode())
    changed = thawed(lines)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if changed:
            change_value(rng, changed)
    return "\n".join(map(encoded, changed)).encode("utf-8", "surrogatepass")


class Folder:
    """A tiny system's files, and the command line in this process."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        monkeypatch.chdir(path)
        # The commands are put together once, not again for every call.
        monkeypatch.setattr(command_line, "app", typer.main.get_command(command_line.app))
        scenario = random_scenario(
            3,
            3,
            2,
            2,
            limits=Limits(kld_max=0.5, data_min=20, kld_risk=0.6, data_risk=0.6),
            isolated=0,
            coverage=0.7,
            reference=True,
        )
        stagewise.save_scenario(scenario, "good.json")
        content = json.loads((path / "good.json").read_text())
        del content["clients"][1]["online_probability"]
        content["clients"][1]["history"] = "1101101110"
        content["window"] = 4
        self.scenario = content
        (path / "good.json").write_text(json.dumps(content))
        client = content["clients"][0]
        edge, gain = next(iter(client["links"].items()))
        self.rounds = [
            ["c0", "c1", "c2"],
            {"online": ["c0", "c2"], "cpu_hz": {"c0": 2e9}, "links": {"c0": {edge: gain * 2}}},
            [],
        ]
        (path / "good.jsonl").write_text("\n".join(map(json.dumps, self.rounds)))
        assert self.run("plan", "good.json", "-o", "good-plan.json", "--method", "paper")[0] == 0
        self.plan = json.loads((path / "good-plan.json").read_text())
        solve = ("solve", "good.json", "--online", "good.jsonl", "--method", "local-search")
        assert self.run(*solve, "-o", "good-decisions.jsonl")[0] == 0
        lines = (path / "good-decisions.jsonl").read_text().splitlines()
        self.decisions = [json.loads(line) for line in lines]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """(exit status, standard output, standard error)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command_line.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def refuses(self, *arguments: str, output: str | None = "out") -> bool:
        """Whether the command refuses its input, as it must refuse it; otherwise it worked."""
        target = None if output is None else self.path / output
        if target is not None:
            target.unlink(missing_ok=True)
            arguments = (*arguments, "-o", output)
        status, out, err = self.run(*arguments)
        assert status in (0, 2), (status, err)
        if status == 0:
            assert target is None or target.exists()
            return False
        assert err.count("\n") == 1, err
        assert err.startswith("stagewise: ")
        assert len(err) < 500
        assert out == ""
        assert target is None or not target.exists()
        return True


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Folder:
    return Folder(tmp_path, monkeypatch)


def fuzz(
    folder: Folder, lines: list[Any], name: str, count: int, seed: int, attempt: Callable[[], bool]
) -> None:
    """`attempt` on `count` damaged files; it says whether the file was refused."""
    refused = 0
    for number in range(count):
        content = damaged(random.Random(f"{seed} {number}"), lines)
        (folder.path / name).write_bytes(content)
        try:
            refused += attempt()
        except BaseException as error:
            error.add_note(f"file {number} of seed {seed}: {content[:3000]!r}")
            raise
    # Some changes leave a file valid and most do not, or this is no test of either.
    assert 0.4 * count < refused < 0.95 * count
    debris = [entry.name for entry in folder.path.iterdir() if entry.name.endswith(".part")]
    assert debris == []


def attempt_scenario(folder: Folder) -> bool:
    """`s.json` is refused, or else can be planned and solved, and the answers are true."""
    if folder.refuses("availability", "s.json", "--rounds", "2", output="r.jsonl"):
        return True
    assert not folder.refuses("plan", "s.json", "--method", "paper", output="p.json")
    status, out, _ = folder.run("check-plan", "s.json", "p.json")
    assert status == 0, out
    solve = ("solve", "s.json", "--online", "r.jsonl", "--method", "orig-prob-solver")
    assert not folder.refuses(*solve)
    status, out, _ = folder.run("check", "s.json", "out", "--online", "r.jsonl")
    assert status == 0, out
    return False


def test_scenarios(folder):
    fuzz(
        folder,
        [folder.scenario],
        "s.json",
        SCENARIOS,
        1,
        lambda: attempt_scenario(folder),
    )


def test_extreme_numbers(folder):
    """One or two fields at the ends of what a number can be, in all clients and edges at once."""
    numbers = [5e-324, 1e-308, 1e-200, 1e-9, 0, 1, 1e9, 1e150, 1e200, 1e300, 1.7e308, 2**31 - 1]
    fields = sorted(
        {
            container[place][0]
            for container, place in places(thawed(folder.scenario))
            if isinstance(container, Pairs) and isinstance(container[place][1], int | float)
        }
    )
    fields.append("label_counts")
    valid = 0
    for number in range(EXTREMES):
        rng = random.Random(f"extreme {number}")
        changed = thawed(folder.scenario)
        for field in rng.sample(fields, rng.choice([1, 2, 2, 3])):
            value = rng.choice(numbers)
            for container, place in list(places(changed)):
                if isinstance(container, Pairs) and container[place][0] == field:
                    old = container[place][1]
                    container[place][1] = (
                        [value] + [0] * (len(old) - 1) if field == "label_counts" else value
                    )
        content = encoded(changed)
        (folder.path / "s.json").write_text(content)
        try:
            valid += not attempt_scenario(folder)
        except BaseException as error:
            error.add_note(f"file {number}: {content}")
            raise
    assert valid > EXTREMES // 10


def test_rounds(folder):
    def attempt() -> bool:
        solve = ("solve", "good.json", "--online", "r.jsonl", "--method", "fedcs")
        check = ("check", "good.json", "good-decisions.jsonl", "--online", "r.jsonl")
        decide = ("decide", "good.json", "good-plan.json", "--online", "r.jsonl")
        if folder.refuses(*solve):
            assert folder.refuses(*decide)
            assert folder.run(*check)[0] == 2
            return True
        status, out, _ = folder.run("check", "good.json", "out", "--online", "r.jsonl")
        assert status == 0, out
        assert folder.run(*check)[0] in (0, 1)
        assert not folder.refuses(*decide, "--method", "repair", "--remedy", "drop")
        status, out, _ = folder.run("check", "good.json", "out", "--online", "r.jsonl")
        assert status == 0, out
        return False

    fuzz(folder, folder.rounds, "r.jsonl", ROUNDS, 2, attempt)


def test_rounds_of_extreme_numbers(folder):
    """Where CPUs and gains leave the range of numbers a round is refused, and before that solved."""
    edge = next(iter(folder.scenario["clients"][0]["links"]))
    refused = []
    for exponent in range(-320, 309, 6):
        value = float(f"1e{exponent}")
        for changes in ({"cpu_hz": {"c0": value}}, {"links": {"c0": {edge: value}}}):
            round_ = {"online": ["c0", "c1", "c2"], **changes}
            (folder.path / "r.jsonl").write_text(json.dumps(round_))
            solve = ("solve", "good.json", "--online", "r.jsonl", "--method", "fedcs")
            refused.append(folder.refuses(*solve))
            if not refused[-1]:
                status, out, _ = folder.run("check", "good.json", "out", "--online", "r.jsonl")
                assert status == 0, (changes, out)
    assert 0 < sum(refused) < len(refused)
    # A single aggregation of 1e308 s can be represented, three of them cannot.
    client = folder.scenario["clients"][0]
    samples = client["batch_fraction"] * sum(client["label_counts"])
    steps_s = folder.scenario["local_steps"] * client["cycles_per_sample"] * samples
    slowest = {"online": ["c0"], "cpu_hz": {"c0": steps_s / 1e308}}
    (folder.path / "r.jsonl").write_text(json.dumps(slowest))
    assert folder.refuses("solve", "good.json", "--online", "r.jsonl", "--method", "fedcs")


def test_plans(folder):
    def attempt() -> bool:
        decide = ("decide", "good.json", "p.json", "--online", "good.jsonl")
        status, out, err = folder.run("check-plan", "good.json", "p.json")
        assert status in (0, 1, 2)
        assert (err.count("\n"), out == "") == ((1, True) if status == 2 else (0, False))
        assert status == 2 or well_formed(folder.path / "p.json")
        if folder.refuses(*decide):
            return True
        # A plan that decides is at least a plan; what it says of itself may still be untrue.
        assert status != 2
        assert folder.run("check", "good.json", "out", "--online", "good.jsonl")[0] == 0
        return False

    fuzz(folder, [folder.plan], "p.json", PLANS, 3, attempt)


def test_decisions(folder):
    statuses = []

    def attempt() -> bool:
        check = ("check", "good.json", "d.jsonl", "--online", "good.jsonl")
        status, out, err = folder.run(*check)
        statuses.append(status)
        assert status in (0, 1, 2)
        if status == 2:
            assert out == ""
            assert err.count("\n") == 1
            assert err.startswith("stagewise: d.jsonl: ")
        else:
            assert err == ""
            assert well_formed(folder.path / "d.jsonl")
            assert out.endswith("everything is true\n") == (status == 0)
        return status == 2

    fuzz(folder, folder.decisions, "d.jsonl", DECISIONS, 4, attempt)
    assert statuses.count(1) > DECISIONS // 25


def well_formed(path: Path) -> bool:
    """Whether every line (or the whole of it) is JSON by the letter of the standard."""

    def constant(name: str) -> None:
        raise ValueError(name)

    content = path.read_bytes().decode("utf-8")
    for part in [content] if path.suffix == ".json" else content.split("\n"):
        if part.strip():
            json.loads(part, parse_constant=constant)
    return True


def test_no_single_field_may_be_missing(folder):
    """Every field of every file, one by one: those that are optional leave a valid file."""
    optional = {"x", "y", "reference", "window", "online_probability", "history", "cpu_hz", "links"}
    optional |= {"library", "lower_bound"}
    files: list[tuple[list[Any], str, tuple[str, ...]]] = [
        ([folder.scenario], "f.json", ("plan", "f.json", "--method", "paper")),
        ([folder.plan], "f.json", ("decide", "good.json", "f.json", "--online", "good.jsonl")),
        (
            folder.rounds,
            "f.jsonl",
            ("solve", "good.json", "--online", "f.jsonl", "--method", "fedcs"),
        ),
    ]
    for lines, name, command in files:
        total = sum(1 for _ in places(thawed(lines)))
        for number in range(total):
            changed = thawed(lines)
            container, place = list(places(changed))[number]
            if not isinstance(container, Pairs):
                continue
            field = container[place][0]
            del container[place]
            (folder.path / name).write_text("\n".join(map(encoded, changed)))
            by_id = field.startswith(("c", "es")) and field[-1].isdigit()
            refused = folder.refuses(*command)
            assert refused or field in optional or by_id, field
