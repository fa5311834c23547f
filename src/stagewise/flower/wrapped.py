"""The strategy within: it makes messages and combines replies, but chooses nobody."""

from collections.abc import Iterable, Iterator, Mapping

from flwr.app import Message
from flwr.serverapp.strategy import FedAvg, Strategy

from stagewise.errors import StagewiseError


def default_strategy() -> Strategy:
    """FedAvg for all clients it is given; clients do not evaluate."""
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)


def check_wrapped(strategy: Strategy) -> None:
    """Raise an error if the strategy would train fewer clients than assigned, or wait for more."""
    for layer in _layers(strategy):
        share = getattr(layer, "fraction_train", 1.0)
        if share != 1.0:
            raise StagewiseError(
                f"wrapped.fraction_train = {share}: must be 1.0: the policy decides who trains"
            )
        for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
            least = getattr(layer, name, 0)
            if least > 1:
                raise StagewiseError(
                    f"wrapped.{name} = {least}: must be at most 1: a round may have few clients"
                )


def weight_key(strategy: Strategy) -> str:
    """The metric by which the strategy weights replies."""
    keys = (getattr(layer, "weighted_by_key", None) for layer in _layers(strategy))
    return next((key for key in keys if isinstance(key, str)), "num-examples")


def by_client(messages: Iterable[Message], node_of: Mapping[str, int]) -> dict[str, Message]:
    """The message to each client; the strategy must have made one for each of them, and no other."""
    made = list(messages)
    by_node = {message.metadata.dst_node_id: message for message in made}
    if len(made) != len(node_of) or by_node.keys() != set(node_of.values()):
        raise StagewiseError(
            f"wrapped: {len(made)} messages to {len(by_node)} nodes: must be one to each of the "
            f"{len(node_of)} assigned"
        )
    return {client: by_node[node] for client, node in node_of.items()}


def _layers(strategy: Strategy) -> Iterator[Strategy]:
    """The strategy, and those within it: the ones for privacy hold another."""
    layer: Strategy | None = strategy
    while isinstance(layer, Strategy):
        yield layer
        layer = getattr(layer, "strategy", None)
