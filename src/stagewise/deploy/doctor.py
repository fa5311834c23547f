"""`stagewise deploy doctor`: what would keep a machine of a site from working, found before it does.

Looks at a machine's folder, as `deploy init` wrote it, and changes nothing.
"""

from __future__ import annotations

import datetime
import email.utils
import os
import shutil
import socket
import ssl
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import httpx
from cryptography import x509

from stagewise.deploy.certificates import AUTHORITY, CERTIFICATE
from stagewise.deploy.layout import PROGRAMS, TASK
from stagewise.deploy.programs import Program, load_programs
from stagewise.deploy.supervisor import load_processes
from stagewise.deploy.task import TaskFile
from stagewise.diagnosis import Finding, Verdict
from stagewise.errors import StagewiseError, one_line

FLOWER = "1.41."
DAYS_LEFT = 30
DISK_MB = 500
CLOCKS_APART_S = 5.0
_TIMEOUT_S = 5.0


def examine(folder: Path) -> list[Finding]:
    """Everything that can be seen from this machine."""
    if not (folder / PROGRAMS).is_file():
        raise StagewiseError(
            f"{folder}: must be a machine's folder: there must be {PROGRAMS} in it"
        )
    programs = load_programs(folder / PROGRAMS)
    return [
        *_versions(programs),
        _disk(folder),
        *_modes(folder),
        *_certificates(folder),
        *_data(folder),
        *(finding for program in programs for finding in _network(folder, program)),
    ]


def _versions(programs: list[Program]) -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok" if sys.version_info >= (3, 11) else "problem", python)
    try:
        flower = version("flwr")
    except PackageNotFoundError:
        yield Finding("flower", "problem", "is not installed: pip install 'stagewise-hfl[deploy]'")
    else:
        fits = flower.startswith(FLOWER)
        rest = "" if fits else f"; the deployment was tested with {FLOWER}x"
        yield Finding("flower", "ok" if fits else "warning", flower + rest)
    if any(program.name.startswith("client-") or program.main for program in programs):
        there = find_spec("torch") is not None
        text = "is there" if there else "is not installed, and this machine trains or evaluates"
        yield Finding("pytorch", "ok" if there else "problem", text)


def _disk(folder: Path) -> Finding:
    free_mb = shutil.disk_usage(folder).free // 2**20
    return Finding("disk", "ok" if free_mb >= DISK_MB else "problem", f"{free_mb} MB free")


def _modes(folder: Path) -> Iterator[Finding]:
    """Others must not read keys and secrets."""
    private = [*folder.rglob("*.key"), *folder.rglob("*.secret")]
    open_ = [path for path in private if path.stat().st_mode & 0o077]
    for path in open_:
        mode = f"{path.stat().st_mode & 0o777:o}"
        yield Finding("keys", "problem", f"{path}: mode {mode}, must be 600: chmod 600 {path}")
    if not open_:
        yield Finding("keys", "ok", f"{len(private)} private files, which only their owner reads")


def _certificates(folder: Path) -> Iterator[Finding]:
    now = datetime.datetime.now(datetime.UTC)
    for path in sorted([*folder.glob(f"*/{CERTIFICATE}"), *folder.glob(f"*/{AUTHORITY}")]):
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            yield Finding("certificate", "problem", f"{path}: {one_line(str(error))}")
            continue
        days = (certificate.not_valid_after_utc - now).days
        early = certificate.not_valid_before_utc > now
        verdict: Verdict = (
            "problem" if days < 0 or early else "warning" if days < DAYS_LEFT else "ok"
        )
        text = "is not valid yet: is the clock right?" if early else f"valid for {days} days"
        hint = "" if verdict == "ok" else ": stagewise deploy renew"
        yield Finding("certificate", verdict, f"{path.relative_to(folder)}: {text}{hint}")


def _data(folder: Path) -> Iterator[Finding]:
    if not (folder / TASK).exists():
        return
    from stagewise.datasets import load_dataset

    task = TaskFile.load(folder / TASK)
    try:
        load_dataset(task.dataset, task.data_dir, image_size=task.image_size)
    except StagewiseError as error:
        yield Finding("data set", "problem", str(error))
    else:
        yield Finding("data set", "ok", f"{task.dataset} is there")


def _network(folder: Path, program: Program) -> Iterator[Finding]:
    options = list(zip(program.command, program.command[1:], strict=False))
    for option, value in options:
        if option == "--superlink":
            yield _port(folder, program, value)
        elif option == "--server":
            address, _, key = value.partition("=")
            yield _server(folder, program, address, (folder / key).parent / AUTHORITY)


def _port(folder: Path, program: Program, address: str) -> Finding:
    """Whether a server's port is free, or served by its own program."""
    what = f"{program.name} at {address}"
    known = load_processes(folder).get(program.name)
    if known is not None and known.pid is not None and Path(f"/proc/{known.pid}").exists():
        return Finding(what, "ok", f"is running, process {known.pid}")
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            if os.name == "posix":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), int(port)))
    except OSError as error:
        return Finding(what, "problem", f"cannot be served: {error.strerror}")
    return Finding(what, "ok", "the port is free")


def _server(folder: Path, program: Program, address: str, authority: Path) -> Finding:
    """Whether a server answers, with a certificate of the site's authority, and what its clock says."""
    what = f"{program.name} to {address}"
    try:
        context = ssl.create_default_context(cafile=str(authority))
        began = datetime.datetime.now(datetime.UTC)
        with httpx.Client(verify=context, timeout=_TIMEOUT_S) as client:
            answer = client.post(f"https://{address}/v1/fleet/pull-messages")
    except (httpx.HTTPError, OSError) as error:
        refused = "CERTIFICATE_VERIFY_FAILED" in str(error)
        text = "its certificate is not of this site" if refused else "does not answer (yet)"
        reason = one_line(str(error))
        return Finding(what, "problem" if refused else "warning", f"{text}: {reason}")
    stamp = answer.headers.get("date")
    if stamp is None:
        return Finding(what, "ok", "answers")
    apart_s = (email.utils.parsedate_to_datetime(stamp) - began).total_seconds()
    far = abs(apart_s) > CLOCKS_APART_S
    text = f"answers; its clock and this one are {abs(apart_s):.0f} s apart"
    return Finding(what, "problem" if far else "ok", text)
