"""A grid on which only some nodes can be seen, so that a strategy configures these and no others."""

from collections.abc import Iterable, Sequence
from typing import Any

from flwr.serverapp import Grid


def _of_grid(name: str) -> Any:
    """A method that the grid itself answers."""
    return lambda self, *values, **named: getattr(self._grid, name)(*values, **named)


class ChosenNodes(Grid):
    """`grid` with the nodes that were chosen; all else goes to the grid itself."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        self._grid = grid
        self._nodes = list(nodes)

    def get_node_ids(self) -> Iterable[int]:
        return list(self._nodes)

    run = property(lambda self: self._grid.run)
    set_run = _of_grid("set_run")
    create_message = _of_grid("create_message")
    push_messages = _of_grid("push_messages")
    pull_messages = _of_grid("pull_messages")
    send_and_receive = _of_grid("send_and_receive")
