"""`run.sh`: everything that one machine of a site runs, as a script to read, to run and to change."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from stagewise.deploy.commands import (
    ENVIRONMENT,
    Command,
    client_command,
    coordinator_command,
    edge_command,
    register_command,
    superlink_command,
    supernode_command,
)
from stagewise.deploy.layout import SCENARIO, TASK, Role
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, EdgeSite, Site

# SuperNodes talk to their executors on loopback, each on a port of its own from here on.
NODE_PORT = 9400

_HERE = Path()

_HEAD = r"""#!/usr/bin/env bash
# On {host}: {roles}.
#
# Needs `stagewise-hfl[deploy]` on the PATH. Ctrl-C or SIGTERM ends everything this script started; what
# the programs say is in logs/. The folder holds this machine's keys: keep it to yourself.

set -euo pipefail
cd "$(dirname "$0")"
umask 077
mkdir -p logs
{environment}
export FLWR_HOME="$PWD/flower"  # and nothing in the home directory

# end SECONDS PID...: ask them to end, and kill those that have not after so long
end() {{
    kill "${{@:2}}" 2>/dev/null || true
    local left=$((5 * $1))
    while kill -0 "${{@:2}}" 2>/dev/null; do
        ((left--)) || kill -KILL "${{@:2}}" 2>/dev/null || true
        sleep 0.2
    done
}}

all=()
finish() {{
    trap - EXIT
    end 20 "${{all[@]}}"
}}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# keep NAME COMMAND...: in the background, its output in logs/NAME.log, and again whenever it ended; a
# node that is refused, because it is not registered yet or thought to be there still, must try again
keep() {{
    (
        trap 'end 15 "$child"; exit' TERM
        while true; do
            "${{@:2}}" & child=$!
            wait "$child" || true
            sleep 3 & child=$!
            wait "$child" || true
        done
    ) >>"logs/$1.log" 2>&1 &
    all+=($!)
}}
"""


def run_script(site: Site, host: str) -> str:
    """The script of `host`, for the folder that its files are in."""
    roles = [CLOUD] if host == site.cloud.host else []
    roles += [f"edge {edge.id}" for edge in site.edges_on(host)]
    roles += [f"client {client.id}" for client in site.clients_on(host)]
    environment = "\n".join(f"export {name}={value}" for name, value in ENVIRONMENT.items())
    lines = [_HEAD.format(host=host, roles=", ".join(roles), environment=environment)]
    if host == site.cloud.host:
        members = site.edges if site.design == "H" else site.clients
        names = [member.id for member in members]
        lines += _superlink(CLOUD, Role.cloud(_HERE), site.cloud, names)
    for edge in site.edges_on(host):
        names = [client.id for client in site.clients_of(edge.id)]
        lines += _superlink(f"edge-{edge.id}", Role.edge(_HERE, edge.id), edge, names)
    port = NODE_PORT
    for edge in site.edges_on(host):
        lines += _edge(site, edge, port)
        port += 1
    for client in site.clients_on(host):
        servers = site.servers_of(client)
        lines += _client(client, servers, port)
        port += len(servers)
    return "\n".join([*lines, *_end(site, host)]) + "\n"


def _superlink(
    name: str, role: Role, server: Cloud | EdgeSite, members: list[str]
) -> Iterator[str]:
    command = superlink_command(*server.place, role.tls, role.superlink_secret, role.database)
    keys = {member: role.member(member) for member in members}
    yield f"# The SuperLink of {name}: flower-superlink, which other machines can use as nodes only."
    yield _shell(f"keep {name}-superlink", command) + "\n"
    yield "# Its nodes must be registered before they start; this waits until it is up."
    yield _shell("", register_command(server.address, role.authority, keys)) + "\n"


def _edge(site: Site, edge: EdgeSite, port: int) -> Iterator[str]:
    role, name = Role.edge(_HERE, edge.id), f"edge-{edge.id}"
    node = supernode_command(
        edge.id, site.cloud.address, role.authority, role.key(CLOUD), port, role.node_secret
    )
    trains = edge_command(
        edge.id,
        port,
        role.node_secret,
        edge.address,
        role.authority,
        role.superlink_secret,
    )
    yield f"# Edge {edge.id} as a node of the cloud, and the program that trains with its clients."
    yield _shell(f"keep {name}-node", node)
    yield _shell(f"keep {name}", trains) + "\n"


def _client(client: ClientSite, servers: dict[str, str], port: int) -> Iterator[str]:
    role, name = Role.client(_HERE, client.id), f"client-{client.id}"
    ports = range(port, port + len(servers))
    yield f"# Client {client.id} as a node of each server it may serve, and the program that trains."
    for (server, address), own in zip(servers.items(), ports, strict=True):
        node = supernode_command(
            client.id, address, role.authority, role.key(server), own, role.node_secret
        )
        yield _shell(f"keep {name}-node-{server}", node)
    trains = client_command(client.id, ports, role.node_secret, Path(TASK), Path(SCENARIO))
    yield _shell(f"keep {name}", trains) + "\n"


def _end(site: Site, host: str) -> Iterator[str]:
    if host == site.cloud.host:
        yield "# The coordinator: who trains where, round by round. Started again, it goes on."
        yield _shell("", coordinator_command(_HERE, Path("run"))) + " &"
        yield "all+=($!)"
        yield "wait $!"
    else:
        yield "wait"


def _shell(prefix: str, command: Command) -> str:
    """The command as a shell reads it, an option to a line."""
    text = prefix
    for word in command:
        apart = " \\\n    " if word.startswith("--") or "=" in word else " "
        text += f"{apart if text else ''}{shlex.quote(word)}"
    return text
