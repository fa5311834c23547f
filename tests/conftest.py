"""What tests share: where the real data is, for those that need it."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says nothing about the code on a busy machine.
settings.register_profile("stagewise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stagewise")


@pytest.fixture
def data_dir() -> Path:
    """The folder of real data that STAGEWISE_DATA names; without one the test is skipped."""
    name = os.environ.get("STAGEWISE_DATA")
    if not name:
        pytest.skip("needs real data: STAGEWISE_DATA is not set")
    folder = Path(name)
    if not folder.is_dir():
        pytest.skip(f"needs real data: STAGEWISE_DATA = {name!r} is not a folder")
    return folder
