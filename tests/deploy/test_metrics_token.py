"""`python -m stagewise.deploy.apps.token`: the token that Prometheus shows at /metrics."""

import pytest

pytest.importorskip("flwr")

from stagewise.deploy.apps import token
from stagewise.deploy.flower_api.server_run import control_token, metrics_token
from stagewise.errors import StagewiseError


def test_it_prints_the_token_that_the_server_asks_for(tmp_path, monkeypatch, capsys):
    secret = tmp_path / "superlink.secret"
    secret.write_bytes(b"of this server alone")
    monkeypatch.setattr("sys.argv", ["token", str(secret)])
    token.main()
    printed = capsys.readouterr().out
    assert printed == f"{metrics_token(b'of this server alone')}\n"
    assert printed.strip() not in (control_token(b"of this server alone"), metrics_token(b"other"))


def test_a_secret_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["token", str(tmp_path / "none")])
    with pytest.raises(StagewiseError, match="none"):
        token.main()
