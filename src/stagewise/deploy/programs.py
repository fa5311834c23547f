"""The programs that one machine of a site runs: their command lines, and the file that lists them.

An address is `host:port`. A program is one process: a SuperLink, an edge, a client with all its links.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stagewise.deploy.certificates import AUTHORITY
from stagewise.deploy.layout import SCENARIO, TASK
from stagewise.deploy.site import CLOUD, ClientSite, EdgeSite, Site
from stagewise.files import decode_json, read_bytes, write_bytes

Command = list[str]

ENVIRONMENT: Mapping[str, str] = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""What every program runs with: nothing is sent to, or asked of, anybody outside the deployment."""

APPS = "stagewise.deploy.apps"


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One process: started again whenever it ends, unless it is the one that all the others are for."""

    name: str
    about: str
    command: Command
    """`python` is this machine's own."""
    main: bool = False
    """Whether all others end when it does, with its exit status; a kill is not an end."""


def save_programs(programs: Iterable[Program], path: Path) -> None:
    encoded = msgspec.json.encode([*programs])
    write_bytes(path, msgspec.json.format(encoded, indent=1) + b"\n")


def load_programs(path: Path) -> list[Program]:
    return decode_json(read_bytes(path), list[Program], str(path))


@dataclass(frozen=True)
class HostPrograms:
    """Of the machine `host`, whose files are in `folder`; `object_bytes` is the largest message."""

    site: Site
    host: str
    folder: Path
    object_bytes: int

    def all(self) -> list[Program]:
        """The cloud's SuperLink, the edges, the clients."""
        nodes = [node for node in self.site.nodes if node.host == self.host]
        programs = [
            self._edge(node) if isinstance(node, EdgeSite) else self._client(node) for node in nodes
        ]
        return ([self._cloud()] if self.site.cloud.host == self.host else []) + programs

    def coordinator(self) -> Program:
        """The cloud's loop, of a deployment on several machines."""
        return Program(
            name="coordinator",
            about="Who trains where, round by round. Started again, it goes on.",
            command=["stagewise", "deploy", "up", "--site", str(self.folder), "--out", "run"],
            main=True,
        )

    def _cloud(self) -> Program:
        cloud = self.site.cloud
        return Program(
            name="cloud-superlink",
            about="The cloud's SuperLink, which other machines can use as nodes only.",
            command=_app(
                "superlink_app",
                superlink=cloud.address,
                folder=self.folder / cloud.role,
                object_bytes=self.object_bytes,
            ),
        )

    def _edge(self, edge: EdgeSite) -> Program:
        role = self.folder / edge.role
        return Program(
            name=edge.role,
            about=f"Edge {edge.id}: a SuperLink for its clients, and a node of the cloud's.",
            command=_app(
                "edge_app",
                edge=edge.id,
                server=f"{self.site.cloud.address}={role / CLOUD}.key",
                superlink=edge.address,
                folder=role,
                object_bytes=self.object_bytes,
            ),
        )

    def _client(self, client: ClientSite) -> Program:
        role, servers = self.folder / client.role, self.site.servers_of(client)
        return Program(
            name=client.role,
            about=f"Client {client.id}: a node of each server it may serve, which trains.",
            command=_app(
                "client_app",
                client=client.id,
                server=[f"{at.address}={role / name}.key" for name, at in servers.items()],
                root_certificates=role / AUTHORITY,
                task=self.folder / TASK,
                scenario=self.folder / SCENARIO,
            ),
        )


def _app(name: str, **values: object) -> Command:
    """`python -m` with `--name value` for each; a list repeats its option."""
    words: Command = ["python", "-m", f"{APPS}.{name}"]
    for option, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            words += ["--" + option.replace("_", "-"), str(each)]
    return words
