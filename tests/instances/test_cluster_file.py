"""Clusters of another orchestrator: what a line says, and what is refused."""

import numpy as np
import pytest

from stagewise.errors import StagewiseError
from stagewise.instances.catalogue import load_instance
from stagewise.instances.cluster_file import read_cluster

CLUSTER = """n1,global_aggregator,,,,
n2,local_aggregator,"n1:100",,,
n4,client,"n1:120,n2:20,n3:60","",10,0

n5,client,"n2:15","",10,1
n3,local_aggregator,n1:90,0.1,,
"""


def test_a_cluster(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(CLUSTER)
    cost, uplink = read_cluster(path)
    assert cost.tolist() == [[20, 60], [15, 0]]
    assert uplink.tolist() == [100, 90]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("client,", "helper,", "line 3: role = 'helper': must be one of global_aggregator"),
        ("n5,", "n4,", "line 5: node = 'n4': must not occur twice"),
        ("n2:15", "n2:-1", "line 5: 'n2:-1': must be a node and a cost above 0"),
        ("n2:15", "n2", "line 5: 'n2': must be a node and a cost above 0"),
        ("n1:90", "n2:90", "n3: must have a link to n1"),
        ("n1,global_aggregator,", "n1,local_aggregator,", "has 0 global_aggregator"),
    ],
)
def test_mistakes(before, after, message, tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(CLUSTER.replace(before, after, 1))
    with pytest.raises(StagewiseError, match=message) as caught:
        read_cluster(path)
    assert str(path) in str(caught.value)


def test_costs_add_up_over_links_and_nothing_waits(data_dir):
    scenario, _ = load_instance("aiotwin-24x5").make()
    by_name = dict(zip(scenario.clients.ids, np.split(scenario.costs.energy_j, 24), strict=True))
    assert by_name["c0"].tolist() == [60, 70, 80, 15, 100]  # the file's n4
    assert by_name["c23"].tolist() == [25, 70, 15, 90, 100]  # its n30
    assert scenario.edges.uplink_energy_j.tolist() == [100] * 5
    assert not scenario.costs.delay_s.any()
    assert (scenario.weights.delay, scenario.weights.energy) == (0, 1)
