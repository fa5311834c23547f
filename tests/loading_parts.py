"""Parts that say who loaded them, and a program that loads them: for a test."""

import os
import sys
from pathlib import Path

import loading_parts  # as another process imports it
from stagewise import loading


def first() -> None:
    print_to("first")


def second() -> None:
    print_to("second")


def fails_elsewhere() -> None:
    print_to("fails_elsewhere")
    if os.environ["ASKING"] != str(os.getpid()):
        sys.exit(1)


def print_to(name: str) -> None:
    who = "here" if os.environ["ASKING"] == str(os.getpid()) else "elsewhere"
    with Path(os.environ["LOADED"]).open("a") as file:
        file.write(f"{name} {who}\n")


if __name__ == "__main__":
    os.environ["ASKING"] = str(os.getpid())
    loading.available_cores = lambda: int(sys.argv[1])
    loading.load(*(getattr(loading_parts, name) for name in sys.argv[2:]))
    assert all(loading.is_compiled(getattr(loading_parts, name)) for name in sys.argv[2:])
