"""Power cuts in a deployment on this machine: a client or an edge with all of its processes."""

import os
import signal

from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.control_pb2 import ListNodesRequest
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from stagewise.deploy.flower_api import _control


def kill(site, name):
    """Kill all processes of a client or an edge at once; their names."""
    running = site.children.running()
    killed = [process for process in running if _owner(site, process) == name]
    assert killed
    for process in killed:
        os.killpg(running[process], signal.SIGKILL)
    return killed


def restart_client(site, name):
    """Start a client of design F again, under its old keys; it is online once it answers."""
    processes = [process for process in site.commands if _owner(site, process) == name]
    assert not site.children.running().keys() & set(processes)
    role = site.host_folder / f"client-{name}"
    deactivate_node(site.site.cloud.address, role / "ca.pem", role / "cloud.key")
    for process in processes:
        site.children.start(process, site.commands[process])


def deactivate_node(address, authority, private_key):
    """Say in the name of a node that was killed that it is gone.

    Otherwise the SuperLink would refuse it, for up to a minute, as one that is connected already.
    """
    key, certificate = load_ssh_private_key(private_key.read_bytes(), None), authority.read_bytes()
    public = public_key_to_bytes(key.public_key())
    auth = NodeAuthHttpInterceptor(key, key.public_key())
    version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
    with _control(address, certificate) as control:
        nodes = control.ListNodes(ListNodesRequest()).nodes_info
    online = [n.node_id for n in nodes if n.public_key == public and n.status == "online"]
    connect = FleetHttpClient.from_server_address
    with connect(address, False, certificate, [version, auth]) as fleet:
        for node_id in online:
            fleet.DeactivateNode(DeactivateNodeRequest(node_id=node_id))


def _owner(site, process):
    """The client or edge whose process it is."""
    members = {each.role: each.id for each in (*site.site.edges, *site.site.clients)}
    names = [role for role in members if process == role or process.startswith(f"{role}-")]
    return members[max(names, key=len)] if names else None
