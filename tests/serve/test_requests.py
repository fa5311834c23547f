"""Who may come in, and what is said to those who ask for what cannot be."""

import asyncio
import json
import random
import re
import select
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from http.client import HTTPSConnection
from itertools import islice
from pathlib import Path
from threading import Event

import malformed
import pytest

from helpers import cases, wait_until
from serve_cases import create, scenario_file, serving, small_scenario
from stagewise.cli.main import main
from stagewise.deploy.certificates import issue_server_certificate, make_authority
from stagewise.serve import live, requests
from stagewise.serve.access import Access, Token, load_tokens, token_digest
from stagewise.serve.requests import LARGEST_BODY
from stagewise.serve.server import ServerSettings, listen


def test_malformed_requests_get_one_line(store_url):
    """No 5xx, no traceback, and the federation goes on as if nothing had been asked."""
    draw = random.Random(0)
    with serving(store_url) as client:
        create(client, small_scenario())
        for _ in range(cases(1500)):
            method, path, body, headers = malformed.request(draw)
            answer = client.ask(method, path, content=body, headers=headers)
            assert answer.status_code < 500, (method, path, body, answer.content)
            if answer.status_code >= 400 and method != "HEAD":
                told = answer.json()["error"]
                assert "\n" not in told and "Traceback" not in told, (method, path, body)
        assert client.post("/v1/federations/a/decisions", json=["c0"]).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (
            "decisions",
            {"online": ["c0"], "round": -1},
            422,
            "body: round = -1: expected `int` >= 0",
        ),
        ("decisions", {"online": ["zz"]}, 422, "online: 'zz' must be the id of a client"),
        (
            "decisions",
            {"online": [], "down": ["es9"]},
            422,
            "down: 'es9' must be the id of an edge",
        ),
        ("decisions", {"online": [], "colour": 1}, 422, "unknown field `colour`"),
        ("try", {"limits": {"kld_max": -1}}, 422, "kld_max = -1.0: must be"),
        ("plans", {"risk": "none"}, 422, "body: risk = 'none': invalid enum value"),
    ],
)
def test_an_error_names_field_value_and_rule(tmp_path, path, body, status, message):
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario())
        answer = client.post(f"/v1/federations/a/{path}", json=body)
        assert (answer.status_code, message in answer.json()["error"]) == (status, True), (
            answer.text
        )


def test_other_sites_cannot_reach_loopback_through_a_browser(tmp_path):
    with serving(str(tmp_path / "a.db"), loopback_only=True) as client:
        for host in ("evil.example", "evil.example:8400", ""):
            assert client.get("/v1/runs", headers={"Host": host}).status_code in (400, 403)
        origin = {"Origin": "http://evil.example"}
        assert client.post("/v1/demo", headers=origin).status_code == 403
        assert client.get("/v1/runs").status_code == 200


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path):
    with serving(str(tmp_path / "a.db"), rate=5) as client:
        answers = [client.get("/healthz") for _ in range(12)]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert answers[-1].headers["retry-after"] == "1"


def test_made_up_tokens_are_counted_by_where_they_come_from(tmp_path):
    secret, kept = "s", Token(name="boss", sha256=token_digest("s"), scope="admin")
    with serving(str(tmp_path / "a.db"), rate=2, access=Access([kept])) as client:
        guesses = [{"Authorization": f"Bearer {number}"} for number in range(12)]
        found = [client.get("/v1/federations", headers=guess).status_code for guess in guesses]
        assert set(found) == {401, 429}
        known = client.get("/v1/federations", headers={"Authorization": f"Bearer {secret}"})
        assert known.status_code == 200  # whoever has a token is not kept out by that


def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setitem(LARGEST_BODY, "admin", 1000)
    with serving(str(tmp_path / "a.db")) as client:
        assert client.post("/v1/scenarios", content=b"x" * 2000).status_code == 413
        parts = (b"x" * 600 for _ in range(2))  # without a length
        assert client.post("/v1/scenarios", content=parts).status_code == 413


@pytest.mark.parametrize(
    ("token", "path", "size", "status"),
    [
        ("nobody", "scenarios", 60_000_000, 401),
        ("reader", "scenarios", 60_000_000, 403),
        ("reader", "federations/a/decisions", 60_000_000, 403),
        ("reader", "federations/a/try", 60_000_000, 413),
        ("worker", "federations/b/decisions", 60_000_000, 403),
        ("worker", "federations/a/decisions", 70_000_000, 413),
    ],
)
def test_nothing_is_read_of_a_body_that_its_sender_may_not_send(
    tmp_path, token, path, size, status
):
    """The answer comes while the body is still to be sent."""
    known = [
        Token(name="reader", sha256=token_digest("reader"), scope="read"),
        Token(name="worker", sha256=token_digest("worker"), scope="decide", federations=["a"]),
    ]
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n"
    head += f"Authorization: Bearer {token}\r\n\r\n"
    with (
        serving(str(tmp_path / "a.db"), access=Access(known)) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=10) as asked,
    ):
        asked.sendall(head.encode())
        assert asked.recv(12) == f"HTTP/1.1 {status}".encode()


def test_small_answers_are_sent_at_once():
    """Otherwise each of them waits 40 ms for the other side to acknowledge its first half."""

    async def without_delay():
        accepted = asyncio.Queue()
        with listen(ServerSettings(port=0)) as listening:
            server = await asyncio.start_server(
                lambda *pair: accepted.put_nowait(pair), sock=listening
            )
            _, ours = await asyncio.open_connection(*listening.getsockname())
            _, theirs = await asyncio.wait_for(accepted.get(), 30)
            found = theirs.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY
            )
            for writer in (ours, theirs):
                writer.close()
            server.close()
        return found

    assert asyncio.run(without_delay())


def test_a_request_has_its_place_before_its_body_is_read(tmp_path, monkeypatch):
    """Whoever sends slowly is among the eight, and is sent away after a while."""
    decisions, body = "/v1/federations/a/decisions", {"round": 0, "online": ["c0"]}
    head = f"POST {decisions} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n".encode()
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario(), policy="fedcs")
        address = ("127.0.0.1", client.port)
        with ExitStack() as stack:
            asked = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(9)]
            for connection in asked:
                connection.sendall(head)
            readable, _, _ = select.select(asked, [], [], 30)
            assert [connection.recv(12) for connection in readable] == [b"HTTP/1.1 429"]
        # Those who went away gave their places back.
        wait_until(lambda: client.post(decisions, json=body).status_code == 200)
        monkeypatch.setattr(requests, "_BODY_S", 0.01)
        with socket.create_connection(address, 30) as slow:
            slow.sendall(head)
            assert slow.recv(12) == b"HTTP/1.1 408"


def test_a_body_that_keeps_nobody_waiting_may_take_its_time(tmp_path, monkeypatch):
    """A large scenario over a slow line."""
    content = scenario_file(small_scenario())
    head = (
        f"POST /v1/scenarios HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    monkeypatch.setattr(requests, "_BODY_S", 0.01)
    with (
        serving(str(tmp_path / "a.db")) as client,
        socket.create_connection(("127.0.0.1", client.port), 30) as slow,
    ):
        slow.sendall(head.encode() + content[:100])
        assert select.select([slow], [], [], 0.2)[0] == []
        slow.sendall(content[100:])
        assert slow.recv(12) == b"HTTP/1.1 201"


def test_federations_that_are_slow_stop_no_other_route(tmp_path, monkeypatch):
    """More requests than the server has threads, while policies decide."""
    slow_ones, go_on = [f"slow{number}" for number in range(6)], Event()
    began = {name: Event() for name in slow_ones}
    decide = live.LiveFederation.decide

    def slow(self, *args):
        if self.name in began:
            began[self.name].set()
            assert go_on.wait(60)
        return decide(self, *args)

    monkeypatch.setattr(live.LiveFederation, "decide", slow)
    with serving(str(tmp_path / "a.db")) as client, ThreadPoolExecutor(60) as executor:
        for name in [*slow_ones, "quick"]:
            create(client, small_scenario(), name, policy="fedcs")
        body = {"round": 0, "online": ["c0"]}
        try:
            asked = [
                executor.submit(client.post, f"/v1/federations/{name}/decisions", json=body)
                for _ in range(10)
                for name in slow_ones
            ]
            assert all(event.wait(30) for event in began.values())
            refused = [answer.result() for answer in islice(as_completed(asked, 30), 12)]
            assert {answer.status_code for answer in refused} == {429}
            assert all(answer.headers["retry-after"] for answer in refused)
            for path in ("/healthz", "/readyz", "/v1/federations/slow0", "/v1/runs"):
                assert client.get(path).status_code == 200
            answer = client.post("/v1/federations/quick/decisions", json=body)
            assert answer.status_code == 200
        finally:
            go_on.set()
        answers = {name: [] for name in slow_ones}
        for place, answer in enumerate(asked):
            if answer.result().status_code == 200:
                answers[slow_ones[place % len(slow_ones)]].append(answer.result().content)
    assert {
        name: (len(found), len(set(found))) for name, found in answers.items()
    } == dict.fromkeys(slow_ones, (8, 1))


def test_whether_there_is_a_job_is_told_to_known_callers_only(tmp_path):
    with serving(str(tmp_path / "a.db"), access=Access([])) as client:
        assert client.get("/v1/jobs/1").status_code == 401


def test_what_needs_no_token_is_what_the_documentation_names(tmp_path):
    told = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    [line] = [line for line in told.splitlines() if line.endswith("need none.")]
    named = set(re.findall(r"`(/[^`]*)`", line))
    with serving(str(tmp_path / "a.db"), access=Access([])) as client:
        addresses = {*client.get("/v1/openapi.json").json()["paths"], "/v1/openapi.json"}
        free = {
            path
            for path in addresses
            if "{" not in path and client.get(path).status_code not in (401, 405, 422)
        }
    assert free == named


def new_token(capsys, *arguments: str) -> tuple[str, str]:
    """A token, and the lines for the file."""
    capsys.readouterr()
    assert main(["token", *arguments]) == 0
    told = capsys.readouterr()
    return told.err.strip().rpartition(" ")[2], told.out


def test_scopes_and_federations_of_tokens(tmp_path, capsys):
    secrets, lines = {}, ""
    for name, scope, only in (
        ("boss", "admin", None),
        ("worker", "decide", "a"),
        ("reader", "read", None),
    ):
        more = [] if only is None else ["--federations", only]
        secrets[name], kept = new_token(capsys, name, "--scope", scope, *more)
        assert secrets[name] not in kept
        lines += kept
    path = tmp_path / "tokens.toml"
    path.write_text(lines)
    scenario = small_scenario()
    bearer = {name: {"Authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
    bearer["nobody"] = {"Authorization": "Bearer nothing"}
    with serving(str(tmp_path / "a.db"), access=Access(load_tokens(path))) as client:
        sha256 = client.post(
            "/v1/scenarios", content=scenario_file(scenario), headers=bearer["boss"]
        ).json()["sha256"]
        body = {"scenario": sha256, "policy": "fedcs"}
        for name in "ab":
            made = client.put(f"/v1/federations/{name}", json=body, headers=bearer["boss"])
            assert made.status_code == 201
            ready = f"/v1/federations/{name}/ready"
            wait_until(lambda r=ready: client.get(r, headers=bearer["boss"]).status_code == 200)

        def status(who, method, path, json=None):
            return client.ask(method, path, json=json, headers=bearer[who]).status_code

        assert client.get("/v1/federations").status_code == 401
        assert status("nobody", "GET", "/v1/federations") == 401
        seen = client.get("/v1/federations", headers=bearer["worker"]).json()
        assert [federation["name"] for federation in seen] == ["a"]
        decide = ("POST", "/v1/federations/a/decisions", ["c0"])
        other = ("POST", "/v1/federations/b/decisions", ["c0"])
        assert [status(who, *decide) for who in ("boss", "worker", "reader")] == [200, 200, 403]
        assert [status(who, *other) for who in ("boss", "worker", "reader")] == [200, 403, 403]
        assert status("reader", "GET", "/v1/federations/b/decisions") == 200
        assert status("worker", "GET", "/v1/runs") == 403
        assert status("worker", "POST", "/v1/federations/a/plans", {}) == 403
        assert status("worker", "DELETE", "/v1/federations/a") == 403
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "host = '0.0.0.0': must be a loopback address"),
        (["--host", "example.org"], "must be a loopback address"),
        (["--tls-cert", "c.pem"], "tls-cert, tls-key: must be given together"),
        (["--tokens", "no.toml"], "no.toml: cannot be read"),
        (["--store", "mysql://x:secret@y/z"], "store = 'mysql://y/z': must be a file for SQLite"),
        (["--store", "/no/such/folder/a.db"], "its folder must exist"),
        (["--port", "70000"], "port = 70000: must be"),
    ],
)
def test_settings_that_let_in_who_must_not(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--port", "0", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told and "secret" not in told and told.count("\n") == 1


@pytest.mark.processes
def test_other_addresses_with_tls_and_tokens(tmp_path, capsys):
    secret, kept = new_token(capsys, "boss", "--scope", "admin")
    (tmp_path / "tokens.toml").write_text(kept)
    authority = make_authority(tmp_path)
    keys = issue_server_certificate(authority, tmp_path, ["127.0.0.1"])
    command = [sys.executable, "-m", "stagewise", "serve", "--host", "0.0.0.0", "--port", "0"]
    command += ["--tls-cert", keys.public, "--tls-key", keys.private, "--tokens", "tokens.toml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        try:
            port = int(re.search(r"https://0.0.0.0:(\d+)", server.stdout.readline()).group(1))
            context = ssl.create_default_context(cafile=str(authority.public))
            wait_until(lambda: answer(port, context, None) is not None)
            assert answer(port, context, None)[0] == 401
            assert answer(port, context, secret) == (200, [])
        finally:
            server.terminate()


def answer(port, context, secret):
    try:
        with closing(HTTPSConnection("127.0.0.1", port, context=context, timeout=10)) as asked:
            headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
            asked.request("GET", "/v1/federations", headers=headers)
            got = asked.getresponse()
            return got.status, json.loads(got.read())
    except (ConnectionError, TimeoutError):
        return None


@pytest.mark.filterwarnings("ignore")
def test_what_openapi_says_can_be_asked(tmp_path):
    """schemathesis draws requests from our own description: none gets a 5xx."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    few = settings(
        max_examples=cases(20),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    asked = 0
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario())
        schema = schemathesis.openapi.from_url(f"{client.address}/v1/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path.endswith("/events"):  # these have no end
                continue

            def ask(case):
                nonlocal asked
                asked += 1
                answer = case.call()
                assert answer.status_code < 500, (case.method, case.path, case.body, answer.text)

            few(given(operation.as_strategy())(ask))()
    assert asked > 50
