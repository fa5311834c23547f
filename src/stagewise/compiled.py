"""How the hot loops are compiled."""

from typing import Any

from numba import njit


def compiled(function: Any) -> Any:
    """Compile `function` for the search: cached on disk, releasing the GIL, without reference counts.

    The search hands tuples of some thirty arrays from function to function. Counting references to
    each of them at every call took three quarters of the time; nothing compiled here allocates or
    keeps an array, so none needs counting.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
    return njit(**options)(function)
