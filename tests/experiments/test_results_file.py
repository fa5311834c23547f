"""`result.json`: small, and all that was in it comes back."""

import math

import msgspec
import pytest
from made_up_results import ALL, Result, experiment, made_up, result, round_of

from stagewise_experiments.catalogue import load_all
from stagewise_experiments.document import to_markdown
from stagewise_experiments.experiment import Experiment
from stagewise_experiments.pictures.figure import picture_files
from stagewise_experiments.results import DIGITS, load_result, save_result
from stagewise_experiments.table import judge, markdown_blocks

LARGEST = 300_000


def close(one: object, other: object) -> bool:
    """Equal, floats to the digits that are kept."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(close(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return not isinstance(one, bool) and math.isclose(one, other, rel_tol=10 ** (1 - DIGITS))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("make", ALL)
def test_what_is_saved_comes_back(make, tmp_path) -> None:
    made: Result = make()
    save_result(made, tmp_path / "one.json")
    back = load_result(tmp_path / "one.json")
    assert close(msgspec.to_builtins(back), msgspec.to_builtins(made))
    save_result(back, tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_stand_ins_that_were_names_alone_are_read(tmp_path) -> None:
    of = experiment(setting={"dataset": "ali"}, stand_ins={"ali": {"dataset": "aid15"}})
    made = result(of, lambda _: {"rounds": [round_of()], "plan_ms": None}, {"ali": "aid15"})
    save_result(made, tmp_path / "new.json")
    text = (tmp_path / "new.json").read_text()
    assert text.count('{"dataset":"aid15"}') == 1
    (tmp_path / "old.json").write_text(text.replace('{"dataset":"aid15"}', '"aid15"'))
    assert load_result(tmp_path / "old.json") == load_result(tmp_path / "new.json")


@pytest.mark.parametrize("of", load_all(), ids=lambda of: of.id)
def test_table_and_verdicts_are_made_from_the_file_again(of: Experiment, tmp_path) -> None:
    made = made_up(of)
    save_result(made, tmp_path / "result.json")
    back = load_result(tmp_path / "result.json")
    assert (tmp_path / "result.json").stat().st_size < LARGEST
    assert to_markdown(markdown_blocks(judge(back))) == to_markdown(markdown_blocks(judge(made)))


def test_the_picture_is_made_from_the_file_again(tmp_path) -> None:
    made = ALL[1]()
    save_result(made, tmp_path / "result.json")
    first, second = (
        picture_files(r)["picture.png"] for r in (made, load_result(tmp_path / "result.json"))
    )
    assert first == second


def test_rounds_are_columns_and_settings_are_what_differs(tmp_path) -> None:
    made = result(experiment(policies=["fedcs"]), lambda c: {"rounds": [round_of(1 / 3)] * 4})
    save_result(made, tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text()
    assert "\n" not in text
    stored = msgspec.json.decode(text)
    assert stored["format"] == "stagewise-result/2"
    assert [cell["setting"] for cell in stored["cells"]] == [{}, {"seed": 1}, {"seed": 2}]
    rounds = stored["cells"][0]["outputs"]["rounds"]
    assert (rounds["count"], rounds["objective"], rounds["feasible"]) == (4, 0.333333333, True)


def test_rounds_of_different_fields_stay_records(tmp_path) -> None:
    rounds = [{"objective": 1.0}, {"objective": 2.0, "kld": None}]
    made = result(experiment(policies=["fedcs"]), lambda c: {"rounds": rounds})
    save_result(made, tmp_path / "result.json")
    assert load_result(tmp_path / "result.json") == made


def test_results_from_before_there_were_regimes_are_literal(tmp_path) -> None:
    path = tmp_path / "result.json"
    save_result(result(experiment(policies=["fedcs"]), lambda c: {"rounds": [round_of()]}), path)
    assert {cell.setting.scenario.regime for cell in load_result(path).cells} == {"calibrated"}
    record = msgspec.json.decode(path.read_bytes())
    del record["setting"]["scenario"]["regime"]
    path.write_bytes(msgspec.json.encode(record))
    assert {cell.setting.scenario.regime for cell in load_result(path).cells} == {"literal"}
