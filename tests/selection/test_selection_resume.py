"""A run goes on after an interruption byte for byte, whoever selects and associates."""

import pytest

from small_runs import contents, small_run
from stagewise.policies.compose import Compose
from stagewise.runs.config import Replanning
from stagewise.selection.catalogue import associator_names, selector_names
from stagewise.simulator.start import resume

NAMES = [
    *selector_names(),
    *(f"all-online+{name}" for name in associator_names()),
    "oort,k=6,window=1+pool",
    "fedcor,k=6,warmup=2,interval=2",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_goes_on_byte_for_byte(name, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    options = {"policy": name, "rounds": 5, "replanning": Replanning()}
    small_run(tmp_path / "whole", **options)
    decide = Compose.decide

    def interrupted(policy, round_):
        if round_.index == 3:
            raise KeyboardInterrupt
        return decide(policy, round_)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Compose, "decide", interrupted)
        small_run(tmp_path / "run", **options)
    assert resume(tmp_path / "run").finished
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
