"""The programs that one machine of a site runs: SuperLinks first, then edges and clients as nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stagewise.deploy.commands import Command, options, supernode_command
from stagewise.deploy.layout import SCENARIO, TASK, Role
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, EdgeSite, Site


@dataclass(frozen=True)
class Server:
    """A SuperLink, of the cloud or of an edge."""

    name: str
    owner: str
    role: Role
    address: str
    port: int
    members: dict[str, Path]
    """The public keys of the nodes that may connect, by name."""
    command: Command


@dataclass(frozen=True)
class Node:
    """A SuperNode of an edge or a client at one SuperLink."""

    name: str
    address: str
    """Of the SuperLink."""
    key: Path
    command: Command


@dataclass(frozen=True)
class Worker:
    """An edge or a client: its SuperNodes, and the program that executes their tasks."""

    name: str
    owner: str
    about: str
    role: Role
    nodes: tuple[Node, ...]
    command: Command


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
    supernode: str = "flower-supernode"

    def servers(self) -> list[Server]:
        """The SuperLinks."""
        site, servers = self.site, []
        if self.host == site.cloud.host:
            members = site.edges if site.design == "H" else site.clients
            names = [member.id for member in members]
            servers.append(self._server(CLOUD, CLOUD, Role.cloud(self.folder), site.cloud, names))
        for edge in site.edges_on(self.host):
            names = [client.id for client in site.clients_of(edge.id)]
            role = Role.edge(self.folder, edge.id)
            servers.append(self._server(f"edge-{edge.id}", edge.id, role, edge, names))
        return servers

    def workers(self) -> list[Worker]:
        """The edges, then the clients; takes a port for each of their SuperNodes."""
        return [
            *(self._edge(edge) for edge in self.site.edges_on(self.host)),
            *(self._client(client) for client in self.site.clients_on(self.host)),
        ]

    def _server(
        self, name: str, owner: str, role: Role, at: Cloud | EdgeSite, members: list[str]
    ) -> Server:
        host, port = at.place
        # What it knows of nodes is in the database, and outlasts it.
        command = self._module(
            "guard",
            host=host,
            port=port,
            ssl_ca_certfile=role.tls.authority,
            ssl_certfile=role.tls.certificate,
            ssl_keyfile=role.tls.key,
            enable_supernode_auth=True,
            isolation="process",
            superexec_auth_secret_file=role.superlink_secret,
            database=role.database,
            disable_runtime_dependency_installation=True,
        )
        keys = {member: role.member(member) for member in members}
        return Server(f"{name}-superlink", owner, role, at.address, port, keys, command)

    def _edge(self, edge: EdgeSite) -> Worker:
        role, name, port = Role.edge(self.folder, edge.id), f"edge-{edge.id}", next(self.ports)
        about = (
            f"Edge {edge.id} as a node of the cloud, and the program that trains with its clients."
        )
        node = self._node(f"{name}-node", edge.id, role, CLOUD, self.site.cloud.address, port)
        command = self._module(
            "apps.edge_app",
            edge=edge.id,
            node=f"127.0.0.1:{port}",
            node_secret=role.node_secret,
            superlink=edge.address,
            root_certificates=role.authority,
            superlink_secret=role.superlink_secret,
        )
        return Worker(name, edge.id, about, role, (node,), command)

    def _client(self, client: ClientSite) -> Worker:
        role, name = Role.client(self.folder, client.id), f"client-{client.id}"
        about = f"Client {client.id} as a node of each server it may serve, and the program that trains."
        servers = self.site.servers_of(client)
        ports = [next(self.ports) for _ in servers]
        nodes = tuple(
            self._node(f"{name}-node-{server}", client.id, role, server, address, port)
            for (server, address), port in zip(servers.items(), ports, strict=True)
        )
        command = self._module(
            "apps.client_app",
            client=client.id,
            node=[f"127.0.0.1:{port}" for port in ports],
            secret=role.node_secret,
            task=self.folder / TASK,
            scenario=self.folder / SCENARIO,
        )
        return Worker(name, client.id, about, role, nodes, command)

    def _node(
        self, name: str, owner: str, role: Role, server: str, address: str, port: int
    ) -> Node:
        key = role.key(server)
        command = supernode_command(
            owner, address, role.authority, key, port, role.node_secret, self.supernode
        )
        return Node(name, address, key, command)

    def _module(self, name: str, **values: object) -> Command:
        return [self.python, "-m", f"stagewise.deploy.{name}", *options(**values)]
