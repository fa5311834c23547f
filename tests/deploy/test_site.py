import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.deploy.site import (
    ClientSite,
    Cloud,
    EdgeSite,
    Site,
    load_site,
    to_toml,
)
from stagewise.errors import StagewiseError
from stagewise.world.scenario import Scenario

HOSTS = ["10.0.0.1", "10.0.0.2", "cloud.example", "fd00::3", "host-7"]


def three_hosts(**changes: Any) -> Site:
    fields: dict[str, Any] = {
        "cloud": Cloud(host="10.0.0.1"),
        "edges": (
            EdgeSite(id="es0", host="10.0.0.2", port=9093),
            EdgeSite(id="es1", host="10.0.0.2", port=9094),
        ),
        "clients": (
            ClientSite(id="c0", host="10.0.0.3", edges=("es0",)),
            ClientSite(id="c1", host="10.0.0.3", edges=("es0", "es1")),
            ClientSite(id="c2", host="10.0.0.2", edges=("es1",)),
        ),
    }
    return Site(**(fields | changes))


@st.composite
def sites(draw: st.DrawFn) -> Site:
    design = draw(st.sampled_from(["H", "F"]))
    count = draw(st.integers(1, 4))
    edges = tuple(
        EdgeSite(id=f"es{k}", host=draw(st.sampled_from(HOSTS)), port=9100 + k)
        if design == "H"
        else EdgeSite(id=f"es{k}")
        for k in range(count)
    )
    covering = st.lists(st.integers(0, count - 1), min_size=1, unique=True)
    clients = tuple(
        ClientSite(
            id=f"c{k}",
            host=draw(st.sampled_from(HOSTS)),
            edges=tuple(f"es{edge}" for edge in draw(covering)),
        )
        for k in range(draw(st.integers(1, 5)))
    )
    return Site(
        design=design,
        dataset=draw(st.text(max_size=8)),
        learning_rate=draw(st.none() | st.floats(1e-12, 1e6)),
        scenario=draw(st.none() | st.text(max_size=8)),
        rounds=draw(st.integers(1, 1000)),
        seed=draw(st.integers(0, 2**63 - 1)),
        cloud=Cloud(host=draw(st.sampled_from(HOSTS)), port=draw(st.integers(1, 9099))),
        edges=edges,
        clients=clients,
    )


class TestFile:
    @given(sites())
    def test_what_is_written_is_read_again(self, site: Site) -> None:
        text = to_toml(site)
        assert msgspec.convert(tomllib.loads(text), Site) == site

    def test_from_disk(self, tmp_path: Path) -> None:
        path = tmp_path / "site.toml"
        path.write_text(to_toml(three_hosts()))
        assert load_site(path) == three_hosts()

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                'host = "10.0.0.1"',
                'host = "10.0.0.1 "',
                "cloud.host = '10.0.0.1 ': must be an address",
            ),
            ('host = "10.0.0.1"', 'host = "0.0.0.0"', "cloud.host = '0.0.0.0': must be an address"),
            (
                "port = 9092",
                "port = 70000",
                "cloud.port = 70000: must be at least 1 and at most 65535",
            ),
            ("port = 9092", 'port = "x"', "cloud.port: Expected `int`, got `str`"),
            ("port = 9094", "port = 9093", "port = 9093: must not be used twice on 10.0.0.2"),
            ('id = "es1"', 'id = "es0"', "edges: id = 'es0': must not occur twice"),
            ('id = "es0"', 'id = "e$(x)"', "edges: id = 'e$(x)': must be at most 64"),
            ('id = "c0"', 'id = "../c0"', "clients: id = '../c0': must be at most 64"),
            (
                'edges = ["es1"]',
                'edges = ["es9"]',
                "('c2').edges = 'es9': must be the id of an edge",
            ),
            ('edges = ["es1"]', "edges = []", "('c2').edges = []: must name an edge"),
            ("rounds = 30", "rounds = 0", "rounds = 0: must be at least 1"),
            (
                "seed = 0",
                "learning_rate = 0.0",
                "learning_rate = 0.0: must be a finite number above 0",
            ),
            (
                "seed = 0",
                "learning_rate = nan",
                "learning_rate = nan: must be a finite number above 0",
            ),
            ("seed = 0", "seed = -1", "seed = -1: must be at least 0"),
            ('design = "H"', 'design = "F"', "('es0').host: must not be given in design F"),
            ('design = "H"', 'design = "G"', "design: Invalid enum value 'G'"),
            ("rounds = 30", "round = 30", "unknown field `round`"),
            ("rounds = 30", "rounds 30", "not valid TOML"),
            ("port = 9094", "", "('es1'): must have a host and a port in design H"),
        ],
    )
    def test_a_mistake_is_one_line_that_names_it(
        self, tmp_path: Path, old: str, new: str, message: str
    ) -> None:
        path = tmp_path / "site.toml"
        text = to_toml(three_hosts())
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(StagewiseError) as caught:
            load_site(path)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)

    def test_an_absent_file(self, tmp_path: Path) -> None:
        with pytest.raises(StagewiseError, match="cannot be read"):
            load_site(tmp_path / "site.toml")


class TestHosts:
    def test_each_machine_is_named_once_and_the_clouds_first(self) -> None:
        assert three_hosts().hosts == ("10.0.0.1", "10.0.0.2", "10.0.0.3")

    @given(sites())
    def test_every_edge_and_client_is_on_exactly_one_machine(self, site: Site) -> None:
        on = [node.id for host in site.hosts for node in site.nodes if node.host == host]
        edges = [edge.id for edge in site.edges] if site.design == "H" else []
        assert sorted(on) == sorted([*edges, *(client.id for client in site.clients)])

    @given(sites())
    def test_every_node_is_at_the_superlinks_it_may_serve(self, site: Site) -> None:
        found = {at.role: set() for at in site.servers}
        for node in site.nodes:
            for at in site.servers_of(node).values():
                found[at.role].add(node.id)
        expected = {f"edge-{edge.id}": set() for edge in site.edges}
        for client in site.clients:
            for edge in client.edges:
                expected[f"edge-{edge}"].add(client.id)
        below = site.edges if site.design == "H" else site.clients
        cloud = {"cloud": {member.id for member in below}}
        assert found == (expected | cloud if site.design == "H" else cloud)

    def test_an_address_of_six_words_has_brackets(self) -> None:
        assert Cloud(host="fd00::3").address == "[fd00::3]:9092"
        assert Cloud(host="10.0.0.1").address == "10.0.0.1:9092"

    def test_a_client_is_a_node_of_each_of_its_edges_or_of_the_cloud(self) -> None:
        def addresses(site: Site) -> dict[str, str]:
            return {name: at.address for name, at in site.servers_of(site.clients[1]).items()}

        site = three_hosts()
        assert addresses(site) == {"es0": "10.0.0.2:9093", "es1": "10.0.0.2:9094"}
        flat = three_hosts(design="F", edges=(EdgeSite(id="es0"), EdgeSite(id="es1")))
        assert addresses(flat) == {"cloud": "10.0.0.1:9092"}


def site_of(scenario: Scenario) -> Site:
    links = scenario.links
    return three_hosts(
        edges=tuple(
            EdgeSite(id=name, host="10.0.0.2", port=9100 + k)
            for k, name in enumerate(scenario.edges.ids)
        ),
        clients=tuple(
            ClientSite(
                id=name,
                host="10.0.0.3",
                edges=tuple(scenario.edges.ids[e] for e in links.edge[links.client == k]),
            )
            for k, name in enumerate(scenario.clients.ids)
        ),
    )


class TestScenario:
    scenario = random_scenario(3, isolated=0.0, coverage=0.5)

    def test_the_same_clients_edges_and_links(self) -> None:
        site_of(self.scenario).check_scenario(self.scenario)

    def test_another_client(self) -> None:
        ids = ("stranger", *self.scenario.clients.ids[1:])
        other = replace(self.scenario, clients=replace(self.scenario.clients, ids=ids))
        missing = self.scenario.clients.ids[0]
        with pytest.raises(StagewiseError, match=rf"clients \('{missing}'\): .* in the scenario"):
            site_of(self.scenario).check_scenario(other)

    def test_another_link(self) -> None:
        site = site_of(self.scenario)
        counts = np.diff(self.scenario.links.start)
        index = int(np.argmin(counts))  # one that not all edges cover
        client = site.clients[index]
        (other, *_) = (e.id for e in site.edges if e.id not in client.edges)
        wider = msgspec.structs.replace(client, edges=(*client.edges, other))
        clients = (*site.clients[:index], wider, *site.clients[index + 1 :])
        with pytest.raises(
            StagewiseError, match=rf"'{client.id}'\).edges .* links in the scenario"
        ):
            msgspec.structs.replace(site, clients=clients).check_scenario(self.scenario)
