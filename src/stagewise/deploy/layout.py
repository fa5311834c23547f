"""Which file of a machine's folder is which: a folder for each role it has, beside `run.sh`."""

from dataclasses import dataclass
from pathlib import Path

from stagewise.deploy.certificates import ServerCertificate

RUN, SITE, TASK, SCENARIO = "run.sh", "site.toml", "task.json", "scenario.json"
"""The last three are for the cloud and, `site.toml` apart, for clients."""


@dataclass(frozen=True)
class Role:
    """The files of the cloud, of an edge or of a client."""

    folder: Path

    @classmethod
    def cloud(cls, host: Path) -> "Role":
        return cls(host / "cloud")

    @classmethod
    def edge(cls, host: Path, name: str) -> "Role":
        return cls(host / f"edge-{name}")

    @classmethod
    def client(cls, host: Path, name: str) -> "Role":
        return cls(host / f"client-{name}")

    @property
    def tls(self) -> ServerCertificate:
        """Of its SuperLink."""
        return ServerCertificate.of(self.folder)

    @property
    def authority(self) -> Path:
        return self.tls.authority

    @property
    def superlink_secret(self) -> Path:
        return self.folder / "superlink.secret"

    @property
    def database(self) -> Path:
        """What its SuperLink knows; made where it runs."""
        return self.folder / "superlink.db"

    def member(self, name: str) -> Path:
        """The public key of a node that may connect to its SuperLink."""
        return self.folder / "nodes" / f"{name}.pub"

    @property
    def node_secret(self) -> Path:
        return self.folder / "node.secret"

    def key(self, server: str) -> Path:
        """Its own private key as a node of `server`."""
        return self.folder / f"{server}.key"


def host_folder(site: Path, host: str) -> Path:
    """The folder of a machine in the folder of a site."""
    return site / "hosts" / host.replace(":", "-")
