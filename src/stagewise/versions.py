"""The versions of everything a result may depend on."""

import platform
from importlib.metadata import PackageNotFoundError, version

from stagewise.cores import available_cores

_PACKAGES = (
    *("stagewise-hfl", "numpy", "scipy", "numba", "scikit-learn", "msgspec", "safetensors"),
    *("typer", "torch", "pandas", "matplotlib", "flwr", "distributed"),
)


def show_versions() -> None:
    """Print the versions of Stagewise, Python and the packages it uses; for bug reports.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.show_versions()  # doctest: +ELLIPSIS
    python: ...
    """
    print(f"python: {platform.python_version()} ({platform.python_implementation()})")
    print(f"machine: {platform.system()} {platform.machine()}, {available_cores()} cores")
    for name in _PACKAGES:
        try:
            print(f"{name}: {version(name)}")
        except PackageNotFoundError:
            print(f"{name}: not installed")
