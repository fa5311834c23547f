"""The federations of this process: created, found, and kept ready as long as there is room."""

import re
from collections import OrderedDict
from threading import Lock

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.files import json_decoder
from stagewise.serve.live import LiveFederation
from stagewise.serve.settings import FederationSettings, PolicyWords
from stagewise.serve.store import Entry, Store
from stagewise.serve.traces import NO_TRACES, Traces
from stagewise.world.generate import numeric
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import decode_scenario
from stagewise.world.scenario_json import json_parts

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_READY = 64
DEMO = "demo"


class Summary(msgspec.Struct, kw_only=True, frozen=True):
    """A federation as lists show it."""

    name: str
    state: str
    error: str | None
    created: float
    scenario_sha256: str
    settings: FederationSettings
    policy: PolicyWords | None
    last: int
    """The number of its newest entry."""
    rounds: int
    """From 0 to the newest that is decided."""


def summary_of(row: Entry) -> Summary:
    return Summary(
        **{
            name: getattr(row, name)
            for name in ("name", "state", "error", "created", "scenario_sha256", "last")
        },
        settings=json_decoder(FederationSettings).decode(row.settings),
        policy=None if row.words is None else json_decoder(PolicyWords).decode(row.words),
        rounds=row.last_round + 1,
    )


class Federations:
    """All that the store knows, with the newest used ones ready to decide."""

    def __init__(self, store: Store, traces: Traces = NO_TRACES) -> None:
        self.store, self._traces = store, traces
        self._lock = Lock()
        self._ready: OrderedDict[str, LiveFederation] = OrderedDict()

    def add_scenario(self, content: bytes, binary: bool) -> Scenario:
        """Check a scenario and keep it."""
        scenario = decode_scenario(content, binary, "scenario")
        self.store.add_scenario(scenario.sha256, binary, content)
        return scenario

    def create(self, name: str, sha256: str, settings: FederationSettings) -> bool:
        """Keep a new federation, whose policy is then made beside other work; whether it is new."""
        if not _NAME.fullmatch(name):
            raise StagewiseError(
                f"name = {shown(name)}: must be 1 to 64 letters, digits, dots, dashes or "
                f"underscores, and begin with a letter or digit"
            )
        settings.check()
        self.store.scenario(sha256)
        return self.store.add_federation(name, sha256, settings)

    def create_demo(self) -> str:
        """A federation to try things on; its name."""
        scenario = numeric(clients=93, edges=4, seed=0)
        made = self.add_scenario(b"".join(json_parts(scenario)), binary=False)
        self.create(DEMO, made.sha256, FederationSettings())
        return DEMO

    def cached(self, name: str) -> LiveFederation:
        """The federation in this process, for what compares it with the store by itself."""
        with self._lock:
            found = self._ready.get(name)
            if found is not None and not found.replaced:
                self._ready.move_to_end(name)
                return found
        return self.get(name)

    def get(self, name: str) -> LiveFederation:
        """The federation in this process, made from the store where it is not ready."""
        created = self.store.position(name).created
        with self._lock:
            found = self._ready.get(name)
            if found is not None and found.created == created:
                self._ready.move_to_end(name)
                return found
        row = self.store.federation(name)
        content, binary = self.store.scenario(row.scenario_sha256)
        scenario = decode_scenario(content, binary, "scenario")
        made = LiveFederation(self.store, name, row.created, scenario, self._traces)
        over: list[LiveFederation] = []
        with self._lock:
            found = self._ready.setdefault(name, made)
            if found.created != made.created:  # another server removed it and created this one
                over.append(found)
                found = self._ready[name] = made
            self._ready.move_to_end(name)
            if len(self._ready) > _READY:
                over.append(self._ready.popitem(last=False)[1])
        for live in over:
            live.close()
        return found

    def remove(self, name: str) -> None:
        self.store.remove_federation(name)
        with self._lock:
            live = self._ready.pop(name, None)
        if live is not None:
            live.close()

    def close(self) -> None:
        with self._lock:
            ready, self._ready = list(self._ready.values()), OrderedDict()
        for live in ready:
            live.close()
