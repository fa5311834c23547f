"""Units, Compose files and charts: valid by their tools' rules, and all run the same."""

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")
pytest.importorskip("torch")

import yaml
from test_deploy_init import TASK, scenario_of
from test_site import three_hosts

from stagewise.cli.main import main
from stagewise.deploy.init import init_site
from stagewise.deploy.service_files import PREFIX
from stagewise.deploy.site import ClientSite, Cloud, EdgeSite, Site
from stagewise.errors import StagewiseError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files")

NAMED = Site(
    cloud=Cloud(host="cloud"),
    edges=(
        EdgeSite(id="es0", host="edge-a", port=9093),
        EdgeSite(id="es1", host="edge-a", port=9094),
    ),
    clients=(
        ClientSite(id="c0", host="clients", edges=("es0",)),
        ClientSite(id="c1", host="clients", edges=("es0", "es1")),
    ),
)


@pytest.fixture
def units(tmp_path: Path) -> Path:
    init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "site", "systemd")
    return tmp_path / "site"


def test_units_are_valid_for_systemd(units: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    for number, folder in enumerate(sorted((units / "hosts").iterdir())):
        text = (folder / "stagewise.service").read_text()
        assert text.count(PREFIX) > 5
        unit = tmp_path / f"stagewise-{number}.service"  # with the folder where it is here
        unit.write_text(text.replace(PREFIX, str(folder)))
        command = ["systemd-analyze", "verify", "--man=no", str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, [x for x in done.stderr.splitlines() if unit.name in x]) == (0, [])


def test_a_compose_file_for_each_machine(tmp_path: Path) -> None:
    init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "site", "compose")
    for folder in (tmp_path / "site" / "hosts").iterdir():
        found = yaml.safe_load((folder / "compose.yaml").read_text())
        (service,) = found["services"].values()
        assert service["command"] == ["/site/run.sh"]
        assert service["network_mode"] == "host"
        assert "./:/site" in service["volumes"]
        assert service["cap_drop"] == ["ALL"]
        assert not [word for word in str(found).split() if "secret" in word or ".key" in word]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("helm") / "site"
    init_site(NAMED, scenario_of(NAMED), TASK, out, "helm")
    return out


def manifests(chart: Path) -> list[dict[str, Any]]:
    """The chart's manifests with its own values; it uses nothing of templates but these."""
    values = yaml.safe_load((chart / "chart" / "values.yaml").read_text())
    found = []
    for path in sorted((chart / "chart" / "templates").iterdir()):
        text = path.read_text()
        for name, value in values.items():
            text = text.replace(f"{{{{ .Values.{name} }}}}", str(value))
        assert "{{" not in text
        found += list(yaml.safe_load_all(text))
    return found


def test_manifests_are_valid_for_kubernetes(chart: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="needs its schemas")
    kinds = []
    for manifest in manifests(chart):
        validate.validate(manifest, "1.30", strict=True)
        kinds.append((manifest["kind"], manifest["metadata"]["name"]))
    assert sorted(kinds) == [
        ("Deployment", "clients"),
        ("Deployment", "edge-a"),
        ("Job", "cloud"),
        ("PersistentVolumeClaim", "cloud"),
        ("Secret", "clients"),
        ("Secret", "cloud"),
        ("Secret", "edge-a"),
        ("Service", "cloud"),
        ("Service", "edge-a"),
    ]


def test_a_pod_gets_the_machines_folder_and_nothing_else(chart: Path, tmp_path: Path) -> None:
    found = {(each["kind"], each["metadata"]["name"]): each for each in manifests(chart)}
    for host in ("cloud", "edge-a", "clients"):
        secret = found["Secret", host]["data"]
        owner = found.get(("Job", host)) or found["Deployment", host]
        volumes = owner["spec"]["template"]["spec"]["volumes"]
        (files,) = [each["secret"] for each in volumes if "secret" in each]
        mounted = {item["path"]: base64.b64decode(secret[item["key"]]) for item in files["items"]}
        folder = chart / "hosts" / host
        paths = [path for path in folder.rglob("*") if path.is_file()]
        assert mounted == {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    authority = base64.b64encode((chart / "authority" / "ca.key").read_bytes()).decode()
    assert authority not in (chart / "chart" / "templates" / "cloud.yaml").read_text()


def test_services_have_the_ports_of_the_superlinks(chart: Path) -> None:
    services = [each for each in manifests(chart) if each["kind"] == "Service"]
    ports = {
        each["metadata"]["name"]: [p["port"] for p in each["spec"]["ports"]] for each in services
    }
    assert ports == {"cloud": [9092], "edge-a": [9093, 9094]}


def test_only_the_owner_reads_a_chart(chart: Path) -> None:
    paths = [path for path in (chart / "chart").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert (chart / "chart").stat().st_mode & 0o777 == 0o700


def test_addresses_are_no_names_of_services(tmp_path: Path) -> None:
    with pytest.raises(
        StagewiseError, match=r"host = '10\.0\.0\.1': must be the name of a service"
    ):
        init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "site", "helm")
    assert list(tmp_path.iterdir()) == []


def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["deploy", "init", "--out", str(tmp_path / "site"), "--dataset", "digits"]
    words += ["--cloud", "cloud", "--edge", "es0=edge-a", "--client", "c0,c1=clients"]
    assert main([*words, "--format", "rpm"]) == 2
    assert "format = 'rpm': must be scripts" in capsys.readouterr().err
    assert main([*words, "--format", "helm"]) == 0
    assert (tmp_path / "site" / "chart" / "Chart.yaml").is_file()
