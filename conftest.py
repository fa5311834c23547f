"""Examples in docstrings that write files do so in a folder of their own."""

import pytest


@pytest.fixture(autouse=True)
def folder_of_an_example(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        folder = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(folder)
