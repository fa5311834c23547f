"""The description of a deployment on several machines: who runs where; and its file, `site.toml`."""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from stagewise.deploy.in_process import covering_edges
from stagewise.errors import StagewiseError, shown
from stagewise.toml import converted, read_toml, toml_lines
from stagewise.world.checks import finite, seed_number, whole
from stagewise.world.participation import LARGEST_ROUNDS
from stagewise.world.scenario import Scenario

FORMAT: Literal["stagewise-site/1"] = "stagewise-site/1"

Design = Literal["H", "F"]

CLOUD = "cloud"
CLOUD_PORT = 9092
EDGE_PORT = 9093

# Names become file names, words of a shell's command line and values of a SuperNode's configuration.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,62})(\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*"
)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class Cloud(_Table, frozen=True, kw_only=True):
    """Where the cloud's SuperLink and the coordinator run."""

    role: ClassVar[str] = CLOUD
    host: str
    port: int = CLOUD_PORT

    def __post_init__(self) -> None:
        _check_host("cloud.host", self.host)
        whole("cloud.port", self.port, 1, 65535)

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of its SuperLink."""
        return self.host, self.port

    @property
    def address(self) -> str:
        return _address(*self.place)


class EdgeSite(_Table, frozen=True, kw_only=True):
    """An edge. In design H it has a SuperLink of its own; in design F it is a name and runs nowhere."""

    id: str
    host: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        _check_name("edges", self.id)
        if self.host is not None:
            _check_host(f"edges ({shown(self.id)}).host", self.host)
        if self.port is not None:
            whole(f"edges ({shown(self.id)}).port", self.port, 1, 65535)

    @property
    def role(self) -> str:
        """What its processes are called, and the folder of its files."""
        return f"edge-{self.id}"

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of its SuperLink, in design H."""
        if self.host is None or self.port is None:
            raise StagewiseError(
                f"edges ({shown(self.id)}): must have a host and a port in design H"
            )
        return self.host, self.port

    @property
    def address(self) -> str:
        return _address(*self.place)


class ClientSite(_Table, frozen=True, kw_only=True):
    """A client, and the edges it may serve."""

    id: str
    host: str
    edges: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name("clients", self.id)
        _check_host(f"clients ({shown(self.id)}).host", self.host)
        if not self.edges:
            raise StagewiseError(f"clients ({shown(self.id)}).edges = []: must name an edge")
        _check_distinct(f"clients ({shown(self.id)}).edges", self.edges)

    @property
    def role(self) -> str:
        return f"client-{self.id}"


class Site(_Table, frozen=True, kw_only=True):
    """A deployment, complete: machines, who runs on them, and what is trained."""

    format: Literal["stagewise-site/1"] = FORMAT
    design: Design = "H"
    dataset: str = "mnist5k"
    model: str | None = None
    """None: by the data set."""
    learning_rate: float | None = None
    """None: by the model."""
    policy: str = "pool"
    rounds: int = 30
    seed: int = 0
    scenario: str | None = None
    """Where the scenario came from; None: the paper's system for these clients and edges."""
    cloud: Cloud
    edges: tuple[EdgeSite, ...]
    clients: tuple[ClientSite, ...]

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 1, LARGEST_ROUNDS)
        seed_number(self.seed)
        if self.learning_rate is not None:
            finite("learning_rate", self.learning_rate, 0, open_below=True)
        for group, members in (("edges", self.edges), ("clients", self.clients)):
            if not members:
                raise StagewiseError(f"{group} = []: there must be at least one")
            _check_distinct(f"{group}: id", [member.id for member in members])
        known = {edge.id for edge in self.edges}
        for client in self.clients:
            for edge in client.edges:
                if edge not in known:
                    raise StagewiseError(
                        f"clients ({shown(client.id)}).edges = {shown(edge)}: must be the id of an edge"
                    )
        self._check_servers()

    def _check_servers(self) -> None:
        for edge in self.edges if self.design == "F" else ():
            if edge.host is not None or edge.port is not None:
                raise StagewiseError(
                    f"edges ({shown(edge.id)}).host: must not be given in design F, where an edge "
                    f"runs nowhere"
                )
        for (host, port), times in Counter(server.place for server in self.servers).items():
            if times > 1:
                raise StagewiseError(f"port = {port}: must not be used twice on {host}")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every machine, once: the cloud's first, then those of edges and clients."""
        members: tuple[Cloud | EdgeSite | ClientSite, ...] = (self.cloud, *self.nodes)
        return tuple(dict.fromkeys(member.host for member in members if member.host is not None))

    @property
    def servers(self) -> tuple[Cloud | EdgeSite, ...]:
        """Who has a SuperLink: the cloud and, in design H, the edges."""
        return (self.cloud, *(self.edges if self.design == "H" else ()))

    @property
    def nodes(self) -> tuple[EdgeSite | ClientSite, ...]:
        """Who connects to a SuperLink: in design H the edges, and the clients."""
        return (*(self.edges if self.design == "H" else ()), *self.clients)

    def servers_of(self, node: EdgeSite | ClientSite) -> dict[str, Cloud | EdgeSite]:
        """Whose SuperLinks a node is at, by the edge's id, or `cloud`."""
        if self.design == "F" or isinstance(node, EdgeSite):
            return {CLOUD: self.cloud}
        return {edge.id: edge for edge in self.edges if edge.id in node.edges}

    def check_scenario(self, scenario: Scenario) -> None:
        """Refuse a scenario of other clients, edges or links than this site has."""
        for group, own, others in (
            ("edges", [edge.id for edge in self.edges], scenario.edges.ids),
            ("clients", [client.id for client in self.clients], scenario.clients.ids),
        ):
            for name in sorted(set(own) ^ set(others)):
                where = "site" if name in others else "scenario"
                raise StagewiseError(f"{group} ({shown(name)}): must also be in the {where}")
        covering_of = covering_edges(scenario)
        for client in self.clients:
            covering = covering_of[client.id]
            if set(covering) != set(client.edges):
                raise StagewiseError(
                    f"clients ({shown(client.id)}).edges = {shown(sorted(client.edges))}: must be "
                    f"those of its links in the scenario, {shown(sorted(covering))}"
                )


def to_toml(site: Site) -> str:
    """The file's text: the same site gives the same text."""
    fields = msgspec.to_builtins(site)
    cloud, edges, clients = (fields.pop(name) for name in ("cloud", "edges", "clients"))
    lines = [*toml_lines(fields), "", "[cloud]", *toml_lines(cloud)]
    for group, members in (("edges", edges), ("clients", clients)):
        for member in members:
            lines += ["", f"[[{group}]]", *toml_lines(member)]
    return "\n".join(lines) + "\n"


def make_site(**fields: Any) -> Site:
    """A site whose fields are checked as those of a file are, types included."""
    return converted(msgspec.to_builtins(fields), Site, "")


def load_site(path: str | Path) -> Site:
    """Read `site.toml`; whatever is wrong with it is one line."""
    return converted(read_toml(path), Site, f"{path}: ")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_host(field: str, host: str) -> None:
    try:
        usable = not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        usable = _HOST.fullmatch(host) is not None
    if not usable:
        raise StagewiseError(
            f"{field} = {shown(host)}: must be an address or the name of a machine that others can reach"
        )


def _check_name(group: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise StagewiseError(
            f"{group}: id = {shown(name)}: must be at most 64 letters, digits, '.', '_' and '-', the "
            f"first a letter or a digit"
        )


def _check_distinct(field: str, names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise StagewiseError(f"{field} = {shown(name)}: must not occur twice")
