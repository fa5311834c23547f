"""What the client of the service makes of answers, whatever answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import urlsplit

import numpy as np
import pytest

from serve_cases import small_rounds, small_scenario
from stagewise.client import ServiceError
from stagewise.client.http import Connection
from stagewise.client.wire import request_of, round_of_request
from stagewise.errors import StagewiseError


@contextmanager
def answering(*answers: tuple[int, bytes, dict[str, str]]) -> Iterator[tuple[Connection, list]]:
    """A server that gives these answers one after the other, and what it was asked."""
    left, asked = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers.get("Authorization"), body))
            status, content, headers = left.pop(0)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = urlsplit(f"http://127.0.0.1:{server.server_port}")
        connection = Connection(address, "secret", patience_s=5.0, cafile=None)
        yield connection, asked
        connection.close()
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (403, b'{"error": "may only read"}', "the service refuses (403): may only read"),
        (502, b"<html>a gateway</html>", "the service answers 502"),
        (500, b'{"other": 1}', "the service answers 500"),
        (500, b"[1]", "the service answers 500"),
        (503, b"", "the service answers 503"),
    ],
)
def test_a_refusal_is_one_line_and_is_not_asked_again(status, content, message):
    with answering((status, content, {})) as (connection, asked):
        with pytest.raises(ServiceError) as raised:
            connection.ask("POST", "/v1/x", b"{}")
        assert (str(raised.value), raised.value.status) == (message, status)
        assert asked == [("/v1/x", "Bearer secret", b"{}")]


def test_a_service_that_asks_for_patience_is_asked_again():
    later = (503, b"", {"Retry-After": "1"})
    with answering(later, later, (200, b"done", {"X-Kind": "a"})) as (connection, asked):
        content, headers = connection.ask("POST", "/v1/x", b"{}")
        assert (content, headers["x-kind"], len(asked)) == (b"done", "a", 3)


def test_a_round_with_a_surcharge_comes_out_as_it_went_in():
    scenario = small_scenario()
    (round_,) = small_rounds(scenario, 1)
    more = np.arange(len(scenario.clients)) / 7
    asked = request_of(round_.surcharged(more), {})
    np.testing.assert_array_equal(round_of_request(scenario, asked, round_.index).surcharge, more)


@pytest.mark.parametrize(("name", "value"), [("nobody", 1.0), (None, -1.0), (None, float("inf"))])
def test_a_surcharge_that_cannot_be_is_refused(name, value):
    scenario = small_scenario()
    (round_,) = small_rounds(scenario, 1)
    asked = request_of(replace(round_), {})
    asked.surcharge = {name or scenario.clients.ids[0]: value}
    with pytest.raises(StagewiseError, match=r"surcharge"):
        round_of_request(scenario, asked, round_.index)
