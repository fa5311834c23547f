"""What tests share: how many random cases are tried, and where the real data is."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from helpers import PROFILE

# How long an example takes says nothing about the code on a busy machine.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _PATIENT, max_examples=20)
settings.register_profile("thorough", _PATIENT)
settings.load_profile(PROFILE)

# A shell's jobs in the background ignore Ctrl-C, and so would every process that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say in a test's report which fault it injects, for the page of `make faults`."""
    for item in items:
        for mark in item.iter_markers("fault"):
            item.user_properties += zip(("fault", "must"), mark.args, strict=True)
