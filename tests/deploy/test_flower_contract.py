"""What `deploy/flower_api` takes for granted of Flower, one by one: what a new version broke."""

import ast
import importlib
import inspect
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")

from deploy_cases import wait_until
from flwr.app import Message

import stagewise.deploy
from stagewise.deploy import flower_api
from stagewise.deploy.certificates import issue_server_certificate, make_authority, make_node_key
from stagewise.deploy.certificates import make_secret as new_secret
from stagewise.deploy.children import Children, free_ports
from stagewise.deploy.flower_api import FleetNode, ServerRun
from stagewise.deploy.flower_api.requests import HEARTBEAT_S
from stagewise.deploy.limits import REPLAY_S
from stagewise.deploy.messages import EdgeNote, pack, read
from stagewise.deploy.programs import ENVIRONMENT
from stagewise.deploy.request_filter import FLEET

ADAPTER = Path(flower_api.__file__).parent
PUBLIC = ("flwr.app", "flwr.clientapp")


def imports(path: Path) -> list[tuple[str, str]]:
    """(module, name) of everything that a file imports of Flower, in functions too."""
    tree = ast.parse(path.read_text())
    found = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr"
        for alias in node.names
    ]
    plain = [
        (alias.name, "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] == "flwr"
    ]
    return found + plain


USED = sorted({each for path in ADAPTER.glob("*.py") for each in imports(path)})


def test_the_tested_version() -> None:
    assert version("flwr").startswith("1.41."), "another Flower: the tests below say what it broke"


@pytest.mark.parametrize(("module", "name"), USED)
def test_what_is_imported_is_there(module: str, name: str) -> None:
    found = importlib.import_module(module)
    assert not name or hasattr(found, name) or importlib.import_module(f"{module}.{name}")


def test_nobody_else_uses_what_flower_does_not_promise() -> None:
    folder = Path(stagewise.deploy.__file__).parent
    others = [path for path in folder.rglob("*.py") if ADAPTER not in path.parents]
    found = {path.name: imports(path) for path in others}
    private = {
        name: [module for module, _ in used if module not in PUBLIC] for name, used in found.items()
    }
    assert {name: used for name, used in private.items() if used} == {}


CALLS = [
    ("flwr.supercore.fab:Fab", ("hash", b"content", {}), {}),
    ("flwr.supercore.interceptors:RuntimeTokenHttpInterceptor", ("token",), {}),
    (
        "flwr.supercore.interceptors:SuperExecAuthHttpInterceptor",
        (),
        {"master_secret": b"", "protected_methods": frozenset()},
    ),
    ("flwr.supercore.interceptors:RuntimeVersionHttpInterceptor", (), {"component_name": "x"}),
    (
        "flwr.supernode.node_auth_http_interceptor:NodeAuthHttpInterceptor",
        ("private", "public"),
        {},
    ),
    (
        "flwr.supercore.protobuf.client:ProtobufClient.from_server_address",
        ("x", False, b"", []),
        {},
    ),
    (
        "flwr.supercore.protobuf.client:ProtobufClient._unary_unary",
        ("self",),
        {"path": "", "rpc_method": "", "request": None, "response_type": None},
    ),
    ("flwr.superlink.main:create_app", ("config", "lifespan"), {}),
    ("flwr.superlink.extensions:get_middleware", (), {}),
    ("flwr.superlink.cli.flower_superlink:_parse_superlink_lifespan_config", (), {}),
    (
        "flwr.server.superlink.linkstate:LinkState.create_node",
        ("self", "", "", b"", 10),
        {"name": ""},
    ),
    ("flwr.server.superlink.linkstate:LinkState.delete_node", ("self", "", 1), {}),
    ("flwr.server.superlink.linkstate:LinkState.deactivate_node", ("self", 1), {}),
    (
        "flwr.supercore.inflatable.inflatable_utils:inflate_object_from_contents",
        ("id", {}),
        {},
    ),
    ("flwr.app.message:make_message", (), {"metadata": None, "content": None}),
]


@pytest.mark.parametrize(("place", "arguments", "named"), CALLS, ids=[call[0] for call in CALLS])
def test_what_is_called_takes_what_it_is_given(place: str, arguments: tuple, named: dict) -> None:
    module, _, path = place.partition(":")
    importlib.import_module(module)
    found = sys.modules[module]  # a function of the same name may hide the module
    for name in path.split("."):
        found = getattr(found, name)
    inspect.signature(found).bind(*arguments, **named)


FIELDS = {
    "fleet_pb2.ActivateNodeRequest": {"public_key", "heartbeat_interval"},
    "fleet_pb2.ActivateNodeResponse": {"node_id"},
    "fleet_pb2.DeactivateNodeRequest": {"node_id"},
    "fleet_pb2.PullMessagesRequest": {"node"},
    "fleet_pb2.PullMessagesResponse": {"messages_list", "message_object_trees"},
    "fleet_pb2.PushMessagesRequest": {"node", "messages_list", "message_object_trees"},
    "fleet_pb2.PushMessagesResponse": {"objects_to_push", "session_id"},
    "heartbeat_pb2.SendNodeHeartbeatRequest": {"node", "heartbeat_interval"},
    "message_pb2.PushObjectRequest": {
        "node",
        "run_id",
        "session_id",
        "object_id",
        "object_content",
    },
    "message_pb2.PullObjectRequest": {"node", "run_id", "object_id"},
    "message_pb2.PullObjectResponse": {"object_found", "object_available", "object_content"},
    "message_pb2.ConfirmMessageReceivedRequest": {"node", "run_id", "message_object_id"},
    "message_pb2.Metadata": {"src_node_id", "dst_node_id", "reply_to_message_id", "message_id"},
    "runtime_pb2.AcquireTaskRequest": {"supported_task_types"},
    "runtime_pb2.AcquireTaskResponse": {"token", "task"},
    "runtime_pb2.PullTaskInputResponse": {"run", "task_id"},
    "runtime_pb2.PushAppMessagesRequest": {"messages_list", "message_object_trees"},
    "runtime_pb2.PushAppMessagesResponse": {"message_ids", "objects_to_push", "session_id"},
    "runtime_pb2.PullAppMessagesRequest": {"message_ids"},
    "runtime_pb2.PullAppMessagesResponse": {"messages_list", "message_object_trees"},
    "runtime_pb2.PushTaskOutputRequest": {"sub_status", "details"},
    "control_pb2.StartRunRequest": {"fab"},
    "control_pb2.StartRunResponse": {"run_id"},
}


@pytest.mark.parametrize("place", FIELDS)
def test_messages_have_the_fields_that_are_used(place: str) -> None:
    module, _, name = place.partition(".")
    message = getattr(importlib.import_module(f"flwr.proto.{module}"), name)
    assert FIELDS[place] <= {field.name for field in message.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("path", "request_name"),
    [
        (f"{FLEET}activate-node", "ActivateNodeRequest"),
        (f"{FLEET}pull-messages", "PullMessagesRequest"),
        (f"{FLEET}push-messages", "PushMessagesRequest"),
        (f"{FLEET}push-object", "PushObjectRequest"),
        ("/v1/runtime/pull-messages", "PullAppMessagesRequest"),
        ("/v1/runtime/push-object", "PushObjectRequest"),
    ],
)
def test_the_paths_that_the_filter_knows_are_those_of_the_requests(
    path: str, request_name: str
) -> None:
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

    assert PROTOBUF_REQUEST_TYPES["POST", path].__name__ == request_name


def test_every_fleet_request_is_one_that_the_filter_was_written_for() -> None:
    """A new one may carry a name or a body that the filter does not look at."""
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

    fleet = {path.removeprefix(FLEET) for _, path in PROTOBUF_REQUEST_TYPES if FLEET in path}
    assert fleet == {
        *("register-node", "activate-node", "deactivate-node", "unregister-node"),
        *("send-node-heartbeat", "pull-messages", "push-messages", "get-run", "get-fab"),
        *("push-object", "pull-object", "confirm-message-received"),
    }


def test_times_fit() -> None:
    from flwr.common import constant

    assert 2 * HEARTBEAT_S < constant.HEARTBEAT_PATIENCE * constant.HEARTBEAT_MIN_INTERVAL
    assert 2 * HEARTBEAT_S < constant.HEARTBEAT_PATIENCE * constant.HEARTBEAT_DEFAULT_INTERVAL
    assert constant.TIMESTAMP_TOLERANCE + 2 * constant.SYSTEM_TIME_TOLERANCE < REPLAY_S


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A SuperLink that runs: its address, its folder, and the key of the node `c0`."""
    folder = tmp_path_factory.mktemp("superlink")
    role, (port,) = folder / "cloud", free_ports(1)
    issue_server_certificate(make_authority(folder / "authority"), role, ["127.0.0.1"])
    new_secret(role / "superlink.secret")
    key = make_node_key(folder / "client", "cloud")
    (role / "nodes").mkdir()
    key.public.rename(role / "nodes" / "c0.pub")
    children = Children(folder / "logs", {**ENVIRONMENT, "FLWR_HOME": str(folder / "flower")})
    app = ["-m", "stagewise.deploy.apps.superlink_app", "--superlink", f"127.0.0.1:{port}"]
    options = ["--folder", str(role), "--object-bytes", "100000"]
    children.start("superlink", [sys.executable, *app, *options])
    try:
        wait_until(lambda: children.listens(port) or children.ended())
        assert not children.ended(), children.log("superlink").read_text()
        yield f"127.0.0.1:{port}", role, key.private.read_bytes()
    finally:
        children.end()


@pytest.mark.processes
def test_an_order_and_its_reply(place) -> None:
    """The whole way through Flower's own server, in the order of the steps."""
    address, role, key = place
    authority = (role / "ca.pem").read_bytes()
    run = ServerRun(address, authority, (role / "superlink.secret").read_bytes())
    node = FleetNode(address, authority, key)
    node.connect()
    node.beat()
    node.say("news")
    ((name, (node_id, note)),) = run.present().items()
    assert (name, note) == ("c0", "news")
    (message_id,) = run.push([(node_id, "train", pack(EdgeNote(clients=("a",))))], 60.0)
    assert message_id is not None
    message = node.next_message()
    assert message is not None
    assert read(message.content, EdgeNote).clients == ("a",)
    assert run.replies.announced([message_id]) == []
    node.reply(lambda m, context: Message(pack(EdgeNote(clients=("b",))), reply_to=m), message)
    (partial,) = run.replies.announced([message_id], wait=True)
    assert run.replies.fetch(partial)
    assert read(partial.assemble().content, EdgeNote).clients == ("b",)
    (failing,) = run.push([(node_id, "train", pack(EdgeNote()))], 60.0)
    message = node.next_message()
    assert message is not None

    def fail(message, context):
        raise RuntimeError("out of memory")

    node.reply(fail, message)
    (partial,) = run.replies.announced([failing])
    assert run.replies.fetch(partial)
    error = partial.assemble().error
    assert "out of memory" in error.reason
    assert flower_api.fate_of(error) == "rejected"
    node.close()
    run.close()


@pytest.mark.processes
def test_a_key_that_comes_or_goes_while_the_server_runs(place, tmp_path: Path) -> None:
    address, role, _ = place
    authority = (role / "ca.pem").read_bytes()
    key = make_node_key(tmp_path, "cloud")
    node = FleetNode(address, authority, key.private.read_bytes())
    assert not connects(node)
    public = role / "nodes" / "c1.pub"
    key.public.rename(public)
    wait_until(lambda: connects(node))
    node.beat()
    public.unlink()
    wait_until(lambda: not beats(node))
    assert not connects(node)
    node.close()


@pytest.mark.processes
def test_one_key_under_two_names_is_refused_and_said_and_the_others_go_on(place) -> None:
    address, role, key = place
    node = FleetNode(address, (role / "ca.pem").read_bytes(), key)
    public, log = role / "nodes" / "c9.pub", role.parent / "logs" / "superlink.log"
    public.write_bytes((role / "nodes" / "c0.pub").read_bytes())

    def said() -> bool:
        assert connects(node)
        return "c9.pub: must not be the key of c0, too" in log.read_text()

    wait_until(said)
    public.unlink()
    node.close()


def connects(node: FleetNode) -> bool:
    return succeeds(node.connect)


def beats(node: FleetNode) -> bool:
    return succeeds(node.beat)


def succeeds(act) -> bool:
    import httpx

    try:
        act()
    except httpx.HTTPStatusError:
        return False
    return True
