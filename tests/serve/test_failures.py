"""The service when something goes wrong: jobs that fail, streams that break off, what the log says."""

import json
import logging
import socket
import sys
import time
from contextlib import closing
from http.client import HTTPConnection

import pytest

from serve_cases import (
    ask,
    await_ready,
    create,
    scenario_file,
    serving,
    small_rounds,
    small_scenario,
)
from stagewise.cli.main import main
from stagewise.serve import settings as serve_settings
from stagewise.serve.logs import JsonLines
from stagewise.serve.refusals import Unknown
from stagewise.serve.runs_folder import RunsFolder


def test_a_job_that_fails_for_no_known_reason_ends_and_the_next_is_done(
    tmp_path, monkeypatch, caplog
):
    """The caller is told nothing of the inside; the log has it."""
    true = serve_settings.make_policy

    def failing(*arguments):
        monkeypatch.setattr(serve_settings, "make_policy", true)
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(serve_settings, "make_policy", failing)
    with serving(str(tmp_path / "a.db")) as client, caplog.at_level(logging.ERROR):
        scenario = scenario_file(small_scenario())
        sha256 = client.post("/v1/scenarios", content=scenario).json()["sha256"]
        body = {"scenario": sha256, "policy": "stagewise-flexible"}
        client.put("/v1/federations/a", json=body)
        give_up = time.monotonic() + 60
        while (told := client.get("/v1/federations/a")).json()["state"] == "preparing":
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert told.json()["state"] == "failed"
        assert told.json()["error"] == "failed; the log says why"
        assert any("RuntimeError: secret of the inside" in line for line in caplog.messages)
        client.put("/v1/federations/b", json=body)
        await_ready(client, "b")


@pytest.mark.parametrize(("last", "rounds"), [(None, [0, 0, 1]), ("1", [0, 1]), ("2", [1])])
def test_a_stream_goes_on_where_its_reader_left_off(tmp_path, last, rounds):
    scenario = small_scenario()
    with serving(str(tmp_path / "a.db")) as client:
        create(client, scenario, policy="c2e-assoc-only")
        for round_ in small_rounds(scenario, 2):
            ask(client, round_)
        with closing(HTTPConnection("127.0.0.1", client.port, timeout=60)) as stream:
            headers = {} if last is None else {"Last-Event-ID": last}
            stream.request("GET", "/v1/federations/a/events?after=0", headers=headers)
            answer, told = stream.getresponse(), []
            while len(told) < len(rounds):
                line = answer.readline()
                if line.startswith(b"data: ") and b'"round"' in line:
                    told.append(json.loads(line[6:])["round"])
        assert told == rounds


@pytest.mark.parametrize("last", ["-1", "two", "1" * 11, "1.0"])
def test_a_place_that_no_stream_has_is_refused(tmp_path, last):
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario(), policy="c2e-assoc-only")
        headers = {"Last-Event-ID": last}
        answer = client.get("/v1/federations/a/events", headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(f"Last-Event-ID = '{last}': must be a number")


def test_a_line_of_the_log_is_one_object_without_a_traceback():
    try:
        raise ValueError("of the\ninside")
    except ValueError:
        fault = sys.exc_info()
    record = logging.LogRecord("a.b", logging.ERROR, "file", 1, "told %d", (3,), fault)
    record.fields = {"status": 500}
    line = JsonLines().format(record)
    assert "\n" not in line and "Traceback" not in line
    told = json.loads(line)
    assert told["message"] == "told 3" and told["status"] == 500 and told["level"] == "error"
    assert told["exception"] == "ValueError: of the\ninside"


def test_runs_are_found_in_folders_of_folders_and_nowhere_else(tmp_path):
    runs = tmp_path / "runs"
    for place in ("a", "b/c", "b/d/e", ".hidden/f", "b/.g"):
        (runs / place).mkdir(parents=True)
        (runs / place / "config.toml").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.toml").touch()
    folder = RunsFolder(runs)
    assert folder.names() == ["a", "b/c", "b/d/e"]
    assert folder.folder("b/c") == runs / "b" / "c"
    for name in ("", ".", "..", "../outside", "b/../a", "a/", "b", "x" * 5000, "a\0"):
        with pytest.raises(Unknown, match="must be one of those that are listed"):
            folder.folder(name)
    for file in ("none.txt", "rounds.jsonl", "../b/c/config.toml"):
        with pytest.raises(Unknown, match="has no file"):
            folder.file("a", file)


def test_a_service_that_cannot_start_says_why_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port, "--host", "localhost"]) == 2
    told = capsys.readouterr().err
    assert f"host = 'localhost', port = {port}: cannot be listened at: " in told
    assert told.count("\n") == 1
    assert main(["serve", "--port", "0", "--tls-cert", "c.pem", "--tls-key", "k.pem"]) == 2
    assert capsys.readouterr().err == "stagewise: tls-cert = 'c.pem': must be a file\n"
