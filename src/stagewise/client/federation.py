"""A federation of a service as a policy like any other."""

import os
import uuid
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
import numpy as np

from stagewise.client.http import Connection
from stagewise.client.wire import RoundWeights, answer_of_record, report_of, request_of
from stagewise.decisions import Answer, DecisionRecord
from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json
from stagewise.outcomes import Outcome, State
from stagewise.policies.policy import Policy
from stagewise.world.rounds import Round, client_number
from stagewise.world.scenario import FloatArray, IntArray, Scenario
from stagewise.world.scenario_json import json_parts

TOKEN = "STAGEWISE_TOKEN"
"""The environment variable that holds the token, where none is given."""
_OPTIONS = {"name": str, "seed": int, "seconds": float, "remedy": str, "diversity": float}


class Federation(Policy):
    """Asks a service who trains where.

    A federation is created for it, under a name of its own; its policy is the one that the address
    names: `http://127.0.0.1:8400/pool`. A plan is the service's to make and to follow.

    Parameters
    ----------
    address : str
        Of the service, with the name of a policy as its path, `pool` where there is none. Behind a
        question mark may stand `name` (of the federation), `seconds`, `remedy` and `diversity`.
    scenario : Scenario
        The system.
    seed : int
        Of every random draw.
    seconds : float, optional
        The time that one decision may take.
    token : str, optional
        By default what $STAGEWISE_TOKEN holds.
    patience_s : float
        How long a service that is away is awaited.
    cafile : str, optional
        Certificates to trust, PEM; by default the system's.
    """

    uses_feedback = True

    def __init__(
        self,
        address: str,
        scenario: Scenario,
        *,
        seed: int = 0,
        seconds: float | None = None,
        token: str | None = None,
        patience_s: float = 60.0,
        cafile: str | None = None,
    ) -> None:
        url, self._options = _parts(address)
        self._settings: dict[str, Any] = {
            "policy": url.path.strip("/") or "pool",
            "seed": seed,
            "seconds": seconds,
            **{name: value for name, value in self._options.items() if name != "name"},
        }
        self._scenario = scenario
        self._connection = Connection(
            url,
            token or os.environ.get(TOKEN),
            patience_s,
            cafile or os.environ.get("SSL_CERT_FILE"),
        )
        self.federation = str(self._options.get("name", uuid.uuid4().hex))
        """The name that the service knows it by."""
        self._losses: dict[str, float] = {}
        words = self._words
        self.mode = words["mode"]
        self.takes_surcharge, self.uses_feedback = words["takes_surcharge"], words["uses_feedback"]
        self.binding = True

    @property
    def title(self) -> str:
        """The name, or that of the policy behind it."""
        return self.name or str(self._words["title"])

    def probe(self, round_: Round) -> IntArray | None:
        if not self.uses_feedback:
            return None
        asked = msgspec.json.decode(self._post("probe", request_of(round_, {}))[0])
        if asked is None:
            return None
        return np.array([client_number(self._scenario, name, "probe") for name in asked], np.int64)

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        ids = self._scenario.clients.ids
        names = [ids[number] for number in clients.tolist()]
        self._losses = dict(zip(names, losses.tolist(), strict=True))

    def decide(self, round_: Round) -> Answer:
        line, headers = self._post("decisions", request_of(round_, self._losses))
        self._losses = {}
        record = decode_json(line, DecisionRecord, "the service's answer")
        weights = RoundWeights()
        if "stagewise-edge-weights" in headers or "stagewise-client-weights" in headers:
            kept = self._get(f"rounds/{round_.index}")
            weights = decode_json(kept, RoundWeights, "the service's answer")
        return answer_of_record(self._scenario, record, weights)

    def observe(self, outcome: Outcome) -> None:
        path = f"{self._path}/outcomes/{outcome.decision.round.index}"
        self._connection.ask("PUT", path, msgspec.json.encode(report_of(outcome)))

    def state(self) -> State:
        """Everything else is the service's to remember."""
        return {"federation": self.federation}

    def restore(self, state: State) -> None:
        before, self.federation = self.federation, str(state["federation"])
        if before != self.federation:
            # It was made for nothing.
            self._connection.ask("DELETE", f"/v1/federations/{quote(before, safe='')}")

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def _words(self) -> dict[str, Any]:
        """What the service's policy says of itself, once it is made."""
        content = b"".join(json_parts(self._scenario))
        sent, _ = self._connection.ask("POST", "/v1/scenarios", content)
        body = {"scenario": msgspec.json.decode(sent)["sha256"], **self._settings}
        self._connection.ask("PUT", self._path, msgspec.json.encode(body))
        self._connection.ask("GET", f"{self._path}/ready")
        words: dict[str, Any] = msgspec.json.decode(self._get(""))["policy"]
        return words

    @property
    def _path(self) -> str:
        return f"/v1/federations/{quote(self.federation, safe='')}"

    def _get(self, what: str) -> bytes:
        return self._connection.ask("GET", f"{self._path}/{what}".rstrip("/"))[0]

    def _post(self, what: str, body: msgspec.Struct) -> tuple[bytes, dict[str, str]]:
        return self._connection.ask("POST", f"{self._path}/{what}", msgspec.json.encode(body))


def _parts(address: str) -> tuple[Any, dict[str, Any]]:
    """The address, and the options behind its question mark."""
    url = urlsplit(address)
    options: dict[str, Any] = {}
    for name, value in parse_qsl(url.query, keep_blank_values=True):
        if name not in _OPTIONS or name == "seed":
            known = ", ".join(option for option in _OPTIONS if option != "seed")
            raise StagewiseError(f"policy = {shown(address)}: {name!r} must be one of {known}")
        try:
            options[name] = _OPTIONS[name](value)
        except ValueError:
            raise StagewiseError(
                f"policy = {shown(address)}: {name} = {value!r}: must be a number"
            ) from None
    try:
        wrong = url.scheme not in ("http", "https") or not url.hostname or url.port == 0
    except ValueError:
        wrong = True
    if wrong:
        raise StagewiseError(f"policy = {shown(address)}: must be http://HOST:PORT/POLICY")
    return url, options


def federation_factory(address: str) -> Any:
    """What makes policies that ask the service at `address`."""
    _parts(address)

    def make(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
        return Federation(address, scenario, seed=seed, seconds=seconds)

    return make
