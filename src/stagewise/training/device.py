"""Where training computes: the processor, or a graphics card if there is one."""

import contextlib
import re
from collections.abc import Iterator

import torch

from stagewise.errors import StagewiseError, shown

CPU = torch.device("cpu")

_NAME = re.compile(r"cpu|cuda(:\d{1,4})?|mps")


def device_of(name: str) -> torch.device:
    """The device called `name`, if this machine has it."""
    if not _NAME.fullmatch(name):
        raise StagewiseError(f"device = {shown(name)}: must be 'cpu', 'cuda', 'cuda:N' or 'mps'")
    device = torch.device(name)
    if device.type == "cuda":
        cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= cards:
            raise StagewiseError(
                f"device = {shown(name)}: must be one that PyTorch finds, and it finds {cards} "
                f"CUDA devices"
            )
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise StagewiseError(f"device = {shown(name)}: must be one that PyTorch finds")
    return device


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """One thread for PyTorch inside the block, as in a worker; its generator is restored after."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
