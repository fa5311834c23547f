"""What starts a machine's `run.sh` where there is a service manager: systemd, Compose, Helm.

All of them run the same supervisor in the same folder; keys are in files, never in arguments.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml

from stagewise.deploy.layout import RUN, host_folder
from stagewise.deploy.site import Site
from stagewise.errors import StagewiseError, shown

Format = Literal["scripts", "systemd", "compose", "helm"]

SYSTEMD, COMPOSE, CHART = "stagewise.service", "compose.yaml", "chart"
PREFIX = "/opt/stagewise"
"""Where a machine's folder is, for systemd; `venv` in it has the programs."""

IMAGE = "stagewise-hfl:latest"
STOP_S = 20
_SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")

_UNIT = """\
# {prefix}/{name}: a machine of a Stagewise deployment ({roles}).
# cp {name} /etc/systemd/system/ && systemctl enable --now stagewise

[Unit]
Description=Stagewise: {roles}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=stagewise
WorkingDirectory={prefix}
Environment=PATH={prefix}/venv/bin:/usr/local/bin:/usr/bin:/bin
Environment=STAGEWISE_DATA={prefix}/data
ExecStart={prefix}/{run}
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec={stop_s}
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=yes
ReadWritePaths={prefix}

[Install]
WantedBy=multi-user.target
"""


def check_format(site: Site, format_: Format) -> None:
    """Refuse a site that a format cannot express."""
    for host in site.hosts if format_ == "helm" else ():
        if not _SERVICE_NAME.fullmatch(host):
            raise StagewiseError(
                f"host = {shown(host)}: must be the name of a service for helm: small letters, digits, -"
            )


def format_of(folder: Path) -> Format:
    """The format of the files that a machine's folder has; that of a chart is not in it."""
    formats: dict[str, Format] = {SYSTEMD: "systemd", COMPOSE: "compose"}
    return next((own for name, own in formats.items() if (folder / name).exists()), "scripts")


def machine_files(site: Site, host: str, format_: Format) -> Iterator[tuple[str, str]]:
    """The files of a format in a machine's folder, by name."""
    members = [each for each in (site.cloud, *site.nodes) if each.host == host]
    roles = ", ".join(member.role.replace("-", " ", 1) for member in members)
    if format_ == "systemd":
        names = {"prefix": PREFIX, "name": SYSTEMD, "run": RUN, "stop_s": STOP_S}
        yield SYSTEMD, _UNIT.format(roles=roles, **names)
    elif format_ == "compose":
        yield COMPOSE, f"# {host}: {roles}. docker compose up -d\n{_dumped(_compose())}"


def _compose() -> dict[str, Any]:
    """One container for a machine, on its own network: others reach it by the addresses of the site."""
    service = {
        "image": f"${{STAGEWISE_IMAGE:-{IMAGE}}}",
        "command": [f"/site/{RUN}"],
        "network_mode": "host",
        "init": True,
        "restart": "on-failure",
        "stop_grace_period": f"{STOP_S}s",
        # The owner of this folder, who alone can read the keys in it.
        "user": "${STAGEWISE_USER:-1000:1000}",
        "environment": {"STAGEWISE_DATA": "/data"},
        "volumes": ["./:/site", "${STAGEWISE_DATA:-./data}:/data:ro"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }
    return {"name": "stagewise", "services": {"stagewise": service}}


def chart_files(site: Site, out: Path) -> Iterator[tuple[str, str]]:
    """A Helm chart of all machines, each a pod with its folder; it holds all keys but one, the CA's."""
    chart = {
        "apiVersion": "v2",
        "name": "stagewise",
        "description": "A Stagewise deployment",
        "type": "application",
        "version": "0.1.0",
    }
    values = {"image": IMAGE, "storage": "1Gi", "memory": "1Gi"}
    yield "Chart.yaml", _dumped(chart)
    yield "values.yaml", _dumped(values)
    for host in site.hosts:
        yield f"templates/{host}.yaml", _dumped(*_manifests(site, host, host_folder(out, host)))


def _manifests(site: Site, host: str, folder: Path) -> Iterator[dict[str, Any]]:
    labels = {"app.kubernetes.io/name": "stagewise", "stagewise/machine": host}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: str(path.relative_to(folder)).replace("/", "--") for path in files}
    data = {name: base64.b64encode(path.read_bytes()).decode() for path, name in names.items()}
    meta = {"name": host, "labels": labels}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}
    ports = [server.place[1] for server in site.servers if server.host == host]
    if ports:
        # Without an address of its own: a server binds to what its name stands for, the pod.
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": [{"name": f"superlink-{port}", "port": port} for port in ports],
        }
        yield {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    items = [{"key": name, "path": str(path.relative_to(folder))} for path, name in names.items()]
    pod = _pod(host, items, lasting=host == site.cloud.host)
    template = {"metadata": {"labels": labels}, "spec": pod}
    if host != site.cloud.host:
        spec = {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # a node is there once
            "selector": {"matchLabels": labels},
            "template": template,
        }
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        return
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "{{ .Values.storage }}"}},
    }
    yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}
    job = {"backoffLimit": 100, "template": template}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job}


def _pod(host: str, items: list[dict[str, str]], lasting: bool) -> dict[str, Any]:
    """A pod whose folder is a copy of the machine's, which only its user can read."""
    copy = f"cp -rL /secret/. /site/ && chmod -R go= /site && chmod u+x /site/{RUN}"
    site, secret = {"name": "site", "mountPath": "/site"}, {"name": "files", "mountPath": "/secret"}
    image = "{{ .Values.image }}"
    locked = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    volume = {"persistentVolumeClaim": {"claimName": host}} if lasting else {"emptyDir": {}}
    return {
        **({"restartPolicy": "OnFailure"} if lasting else {}),
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
        "terminationGracePeriodSeconds": STOP_S,
        "initContainers": [
            {
                "name": "copy",
                "image": image,
                "command": ["sh", "-c", copy],
                "volumeMounts": [site, {**secret, "readOnly": True}],
                "securityContext": locked,
            }
        ],
        "containers": [
            {
                "name": "stagewise",
                "image": image,
                "command": [f"/site/{RUN}"],
                "resources": {"requests": {"memory": "{{ .Values.memory }}"}},
                "volumeMounts": [site],
                "securityContext": locked,
            }
        ],
        "volumes": [
            {"name": "site", **volume},
            {"name": "files", "secret": {"secretName": host, "defaultMode": 0o400, "items": items}},
        ],
    }


def _dumped(*documents: dict[str, Any]) -> str:
    class Plain(yaml.SafeDumper):
        """Without anchors, which Helm and Compose understand and people do not."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=105)
    return text
