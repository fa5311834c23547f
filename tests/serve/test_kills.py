"""kill -9 under load: nothing that was acknowledged is lost, and nothing is decided twice."""

import pytest
from kill_cases import kill_under_load

pytestmark = pytest.mark.processes


def test_every_acknowledged_decision_is_there_once(store_url, tmp_path):
    """Three moments; `benchmarks/serve.py kills` tries fifty."""
    acknowledged, _ = kill_under_load(store_url, 3, tmp_path)
    assert acknowledged > 20
