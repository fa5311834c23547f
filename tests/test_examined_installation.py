"""`stagewise doctor`: what is missing is named, with what it is needed for and how to get it."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, version

import msgspec
import pytest

from extra_promises import PROMISES
from stagewise import compiled_parts, doctor
from stagewise.cli.main import main
from stagewise.compiled_parts import PARTS


def test_extras_hold_what_the_extras_they_name_hold():
    needed = doctor.needed_by(
        [
            "numpy>=1.26",
            "numba<0.69,>=0.60",
            'torch<3,>=2.4; extra == "simulate"',
            "pandas>=2.1; extra == 'simulate'",
            'stagewise-hfl[simulate]; extra == "deploy"',
            'flwr==1.41.0; extra == "deploy"',
            'psycopg[binary]>=3.2; python_version >= "3.11" and extra == "postgresql"',
            'stagewise-hfl[deploy,postgresql]; extra == "dev"',
        ]
    )
    assert needed == {
        "": ["numpy", "numba"],
        "simulate": ["torch", "pandas"],
        "deploy": ["flwr", "torch", "pandas"],
        "postgresql": ["psycopg"],
        "dev": ["flwr", "torch", "pandas", "psycopg"],
    }


def test_every_purpose_is_that_of_an_extra():
    extras = set(metadata(doctor.DISTRIBUTION).get_all("Provides-Extra"))
    assert set(doctor.PURPOSES) <= extras


def test_what_every_extra_is_for_is_tried():
    """By `make extras-test`; `dev` is what all tests run with."""
    extras = set(metadata(doctor.DISTRIBUTION).get_all("Provides-Extra"))
    assert set(PROMISES) == extras - {"dev"}


@pytest.fixture
def findings(capsys):
    def examined(status: int) -> dict[str, tuple[str, str]]:
        assert main(["doctor", "--json"]) == status
        answer = msgspec.json.decode(capsys.readouterr().out)
        return {found["what"]: (found["verdict"], found["text"]) for found in answer}

    return examined


def without(monkeypatch, *packages):
    def there(package):
        if package in packages:
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(doctor, "version", there)


def test_a_missing_extra_is_named_and_is_no_problem(findings, monkeypatch):
    without(monkeypatch, "torch", "pandas")
    found = findings(status=0)
    verdict, text = found["simulate: training, reports, experiments"]
    assert verdict == "optional"
    assert text == "missing: torch, pandas: pip install 'stagewise-hfl[simulate]'"
    assert found["core"][0] == "ok"
    assert found["data sets"][0] == "ok"  # digits come with scikit-learn


NO_HIGHSPY = """
import sys
from importlib import metadata

def version(package, true=metadata.version):
    if package == "highspy":
        raise metadata.PackageNotFoundError(package)
    return true(package)

metadata.version, sys.modules["highspy"] = version, None
from stagewise.cli.main import main
sys.exit(main(["doctor", "--json"]))
"""


def test_a_missing_package_of_the_core_is_a_problem():
    """In a process of its own, where the package cannot be imported either."""
    done = subprocess.run([sys.executable, "-c", NO_HIGHSPY], capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    [core] = [found for found in msgspec.json.decode(done.stdout) if found["what"] == "core"]
    assert core["verdict"] == "problem"
    assert core["text"] == "missing: highspy: pip install stagewise-hfl"


def test_compiled_code_is_ready_missing_or_cannot_be_kept(findings, monkeypatch, tmp_path):
    monkeypatch.setattr("stagewise.compiled.lasting_folder", lambda: tmp_path)
    verdict, text = findings(status=0)["compiled code"]
    assert verdict == "optional" and text.endswith("stagewise doctor --compile")
    for part in PARTS.values():
        (tmp_path / f"{part.__module__}.{part.__name__}").touch()
    verdict, text = findings(status=0)["compiled code"]
    assert verdict == "ok" and str(tmp_path) in text
    monkeypatch.setattr("stagewise.compiled.lasting_folder", lambda: None)
    assert findings(status=0)["compiled code"][0] == "warning"


def test_compile_loads_every_part(monkeypatch, capsys):
    loaded = []
    monkeypatch.setattr(compiled_parts, "load", lambda *parts: loaded.extend(parts))
    assert main(["doctor", "--compile"]) == 0
    assert loaded == list(PARTS.values())
    assert "stagewise" in capsys.readouterr().out
