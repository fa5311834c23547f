"""The programs that one machine of a site runs, and their command lines.

An address is `host:port`. Flower's Runtime API of a SuperNode is for its executor on the same
machine; who takes tasks there, or from a SuperLink, shows that it knows a secret.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stagewise.deploy.certificates import AUTHORITY, CERTIFICATE, KEY
from stagewise.deploy.layout import NODE_SECRET, SCENARIO, SUPERLINK_SECRET, TASK, member_key
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, EdgeSite, Site

Command = list[str]

ENVIRONMENT: Mapping[str, str] = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
}
"""What every program runs with: nothing is sent to, or asked of, anybody outside the deployment."""


@dataclass(frozen=True)
class Server:
    """A SuperLink, of the cloud or of an edge."""

    name: str
    at: Cloud | EdgeSite
    authority: Path
    members: dict[str, Path]
    """The public keys of the nodes that may connect, by name."""
    command: Command


@dataclass(frozen=True)
class Worker:
    """An edge or a client: its SuperNodes, then the program that executes their tasks, by name."""

    about: str
    commands: dict[str, Command]


@dataclass(frozen=True)
class Programs:
    """Of the machine `host`, whose files are in `folder`.

    SuperNodes talk to their executors on loopback, each on one of the `ports`.
    """

    site: Site
    host: str
    folder: Path
    ports: Iterator[int]
    python: str = "python"

    def servers(self) -> list[Server]:
        """The SuperLinks."""
        return [self._server(at) for at in self.site.servers if at.host == self.host]

    def workers(self) -> list[Worker]:
        """The edges, then the clients; takes a port for each of their SuperNodes."""
        return [
            self._edge(node) if isinstance(node, EdgeSite) else self._client(node)
            for node in self.site.nodes
            if node.host == self.host
        ]

    def _server(self, at: Cloud | EdgeSite) -> Server:
        (host, port), role = at.place, self.folder / at.role
        # What it knows of nodes is in the database, and outlasts it.
        command = self._module(
            "guard",
            host=host,
            port=port,
            ssl_ca_certfile=role / AUTHORITY,
            ssl_certfile=role / CERTIFICATE,
            ssl_keyfile=role / KEY,
            enable_supernode_auth=True,
            isolation="process",
            superexec_auth_secret_file=role / SUPERLINK_SECRET,
            database=role / "superlink.db",
            disable_runtime_dependency_installation=True,
        )
        keys = {node.id: member_key(role, node.id) for node in self.site.nodes_of(at)}
        return Server(f"{at.role}-superlink", at, role / AUTHORITY, keys, command)

    def _edge(self, edge: EdgeSite) -> Worker:
        role = self.folder / edge.role
        executor, node = self._node(edge, CLOUD, self.site.cloud.address)
        command = self._module(
            "apps.edge_app",
            edge=edge.id,
            node=executor,
            node_secret=role / NODE_SECRET,
            superlink=edge.address,
            root_certificates=role / AUTHORITY,
            superlink_secret=role / SUPERLINK_SECRET,
        )
        about = (
            f"Edge {edge.id} as a node of the cloud, and the program that trains with its clients."
        )
        return Worker(about, {f"{edge.role}-node": node, edge.role: command})

    def _client(self, client: ClientSite) -> Worker:
        servers = self.site.servers_of(client)
        nodes = {name: self._node(client, name, at.address) for name, at in servers.items()}
        command = self._module(
            "apps.client_app",
            client=client.id,
            node=[executor for executor, _ in nodes.values()],
            secret=self.folder / client.role / NODE_SECRET,
            task=self.folder / TASK,
            scenario=self.folder / SCENARIO,
        )
        about = f"Client {client.id} as a node of each server it may serve, and the program that trains."
        commands = {f"{client.role}-node-{server}": node for server, (_, node) in nodes.items()}
        return Worker(about, commands | {client.role: command})

    def _node(self, of: EdgeSite | ClientSite, server: str, address: str) -> tuple[str, Command]:
        """A SuperNode: where it talks to its executor, and its command."""
        role, port = self.folder / of.role, next(self.ports)
        files = role / AUTHORITY, role / f"{server}.key", role / NODE_SECRET
        program = str(Path(self.python).with_name("flower-supernode"))
        return f"127.0.0.1:{port}", supernode_command(of.id, address, *files, port, program)

    def _module(self, name: str, **values: object) -> Command:
        return [self.python, "-m", f"stagewise.deploy.{name}", *_options(**values)]


def supernode_command(
    owner: str,
    superlink: str,
    authority: Path,
    key: Path,
    secret: Path,
    port: int,
    program: str = "flower-supernode",
) -> Command:
    """A SuperNode of the client or edge `owner`, its executor's API at `port` on loopback."""
    options = _options(
        superlink=superlink,
        root_certificates=authority,
        auth_supernode_private_key=key,
        host="127.0.0.1",
        port=port,
        isolation="process",
        superexec_auth_secret_file=secret,
        node_config=f'id="{owner}"',
    )
    return [program, *options]


def register_command(superlink: str, authority: Path, nodes: Mapping[str, Path]) -> Command:
    """Wait for the SuperLink on this machine and let nodes connect: name -> public key."""
    return [
        *("python", "-m", "stagewise.deploy.apps.register"),
        *_options(superlink=superlink, root_certificates=authority),
        *(f"{name}={key}" for name, key in nodes.items()),
    ]


def _options(**values: object) -> Command:
    """`--name value` for each; a list repeats its option, True is an option without a value."""
    words: Command = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        for each in value if isinstance(value, list) else [value]:
            words += [option] if each is True else [option, str(each)]
    return words
