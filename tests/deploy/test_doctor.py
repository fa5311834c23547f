"""`deploy doctor`: each thing that would keep a machine from working is found and named."""

import socket
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import msgspec
import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")
pytest.importorskip("torch")

from test_deploy_init import TASK, scenario_of

from stagewise.cli.main import main
from stagewise.deploy import certificates, doctor
from stagewise.deploy.children import free_ports
from stagewise.deploy.init import init_site
from stagewise.deploy.programs import load_programs
from stagewise.deploy.site import ClientSite, Cloud, EdgeSite, Site
from stagewise.errors import StagewiseError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with all roles, on loopback."""
    cloud, edge = free_ports(2)
    site = Site(
        cloud=Cloud(host="127.0.0.1", port=cloud),
        edges=(EdgeSite(id="es0", host="127.0.0.1", port=edge),),
        clients=(ClientSite(id="c0", host="127.0.0.1", edges=("es0",)),),
    )
    init_site(site, scenario_of(site), TASK, tmp_path / "site")
    return tmp_path / "site" / "hosts" / "127.0.0.1"


def found(folder: Path) -> dict[str, list[str]]:
    """What is not as it should be, by verdict."""
    by_verdict: dict[str, list[str]] = {"ok": [], "warning": [], "problem": []}
    for finding in doctor.examine(folder):
        by_verdict[finding.verdict].append(f"{finding.what}: {finding.text}")
    return by_verdict


def test_a_machine_before_its_start(machine: Path) -> None:
    seen = found(machine)
    assert seen["problem"] == []
    assert len(seen["warning"]) == 2  # the two servers do not answer yet
    assert all("does not answer (yet)" in line for line in seen["warning"])
    assert sum("the port is free" in line for line in seen["ok"]) == 2
    assert any("digits is there" in line for line in seen["ok"])


def test_a_port_that_somebody_else_has(machine: Path) -> None:
    (edge,) = [each for each in load_programs(machine / "programs.json") if "edge" in each.name]
    address = edge.command[edge.command.index("--superlink") + 1]
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        problems = found(machine)["problem"]
    assert problems == [f"edge-es0 at {address}: cannot be served: Address already in use"]


def test_a_key_that_others_can_read(machine: Path) -> None:
    key = machine / "client-c0" / "es0.key"
    key.chmod(0o644)
    (problem,) = found(machine)["problem"]
    assert problem == f"keys: {key}: mode 644, must be 600: chmod 600 {key}"


@pytest.mark.parametrize(("days", "verdict"), [(20, "warning"), (-1, "problem")])
def test_certificates_that_end_soon_or_have_ended(
    machine: Path, monkeypatch: pytest.MonkeyPatch, days: int, verdict: str
) -> None:
    class Later(doctor.datetime.datetime):
        @classmethod
        def now(cls, tz=None):  # type: ignore[no-untyped-def, override]
            moved = timedelta(days=certificates._SERVER_DAYS - days - 0.5)
            return super().now(tz) + moved

    monkeypatch.setattr(doctor.datetime, "datetime", Later)
    lines = [line for line in found(machine)[verdict] if "server.pem" in line]
    assert len(lines) == 2
    assert all(line.endswith(": stagewise deploy renew") for line in lines)


def test_data_a_disk_and_a_flower_that_are_not_as_they_must_be(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    msgspec.structs.replace(TASK, dataset="mnist", data_dir="/nowhere").save(machine / "task.json")
    monkeypatch.setattr(doctor, "DISK_MB", 10**12)
    monkeypatch.setattr(doctor, "FLOWER", "9.9.")
    seen = found(machine)
    assert [line.partition(":")[0] for line in seen["problem"]] == ["disk", "data set"]
    assert any(line.startswith("flower: ") and "9.9.x" in line for line in seen["warning"])


@pytest.mark.parametrize(
    ("ahead_s", "verdict", "text"),
    [
        (0, "ok", "its clock and this one are"),
        (-3600, "problem", "its clock and this one are 36"),
        (None, "ok", "answers"),
    ],
)
def test_clocks_that_differ(machine: Path, monkeypatch, ahead_s, verdict, text) -> None:
    """Requests are refused where they do."""
    stamp = {}
    if ahead_s is not None:
        said = datetime.now(UTC) + timedelta(seconds=ahead_s)
        stamp = {"date": format_datetime(said, usegmt=True)}
    transport = httpx.MockTransport(lambda request: httpx.Response(401, headers=stamp))
    client = httpx.Client
    monkeypatch.setattr(
        doctor.httpx, "Client", lambda **options: client(transport=transport, timeout=1.0)
    )
    servers = [finding for finding in doctor.examine(machine) if " to " in finding.what]
    assert len(servers) == 2
    for finding in servers:
        assert finding.verdict == verdict and text in finding.text, finding


def test_the_command(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "doctor", str(machine), "--json"]) == 0
    assert {"what", "verdict", "text"} == set(msgspec.json.decode(capsys.readouterr().out)[0])
    (machine / "cloud" / "superlink.secret").chmod(0o640)
    assert main(["deploy", "doctor", str(machine)]) == 1
    assert "mode 640" in capsys.readouterr().out.replace("\n", " ")


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StagewiseError, match="must be a machine's folder"):
        doctor.examine(tmp_path)
