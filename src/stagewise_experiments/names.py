"""How policies and data sets are called and drawn, the same in every picture and table."""

import zlib
from dataclasses import dataclass

from stagewise.report.style import COLOURS, EDGE_COLOURS

REFERENCE = "orig-prob-solver"
"""The paper draws the others against it."""

POLICY_NAMES = {
    "pool-flexible": "pool (ours)",
    "pool-strict": "pool, strict (ours)",
    "pool": "pool (ours)",
    "stagewise-paper": "StagewiseHFL",
    "paper": "StagewiseHFL",
    "stagewise-strict": "stagewise-strict",
    "stagewise-flexible": "stagewise-flexible",
    "orig-prob-solver": "OrigProbSolver",
    "kld-minimization": "KLDMinimization",
    "client-sel-only": "ClientSelOnly",
    "c2e-assoc-only": "C2EAssocOnly",
    "c2e-greedy-assoc": "C2EGreedyAssoc",
    "fedcs": "FedCS",
    "exact": "certified optimum",
    "local-search": "local search",
}

DATASET_NAMES = {
    "mnist": "MNIST",
    "mnist5k": "MNIST-5k",
    "digits": "8x8 digits",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
    "tiny-imagenet-50": "Tiny-ImageNet-50",
    "aid15": "AID-15",
    "ali": "ALI",
}


@dataclass(frozen=True)
class Style:
    """How one policy is drawn in every picture."""

    colour: str
    marker: str
    line: str = "-"
    width: float = 1.4

    @property
    def size(self) -> float:
        """Of the marker: a star looks smaller than the others."""
        return 10 if self.marker == "*" else 5.5


_BLACK = "#222222"
_STYLES = {
    "pool-flexible": Style(COLOURS[1], "*", width=2.6),
    "pool-strict": Style(COLOURS[1], "*", "--", 2.0),
    "stagewise-paper": Style(COLOURS[0], "o", width=1.9),
    "orig-prob-solver": Style(_BLACK, "D", "--"),
    "kld-minimization": Style(COLOURS[2], "s"),
    "client-sel-only": Style(COLOURS[3], "^"),
    "c2e-assoc-only": Style(COLOURS[4], "v"),
    "c2e-greedy-assoc": Style(COLOURS[5], "P"),
    "fedcs": Style(COLOURS[6], "X"),
    "exact": Style(EDGE_COLOURS[5], "d", ":"),
    "local-search": Style(EDGE_COLOURS[2], "<", "-."),
    "stagewise-strict": Style(EDGE_COLOURS[4], "h", "--"),
    "stagewise-flexible": Style(EDGE_COLOURS[0], "p", "--"),
}
_STYLES |= {"pool": _STYLES["pool-flexible"], "paper": _STYLES["stagewise-paper"]}


def policy_name(policy: str) -> str:
    """As in the paper where it has the policy; a policy of a user's own by its name."""
    return POLICY_NAMES.get(policy, policy)


def dataset_name(dataset: str) -> str:
    return DATASET_NAMES.get(dataset, dataset)


def style_of(policy: str) -> Style:
    """Fixed for each policy, so that pictures can be compared; that of any other depends on its name."""
    if policy in _STYLES:
        return _STYLES[policy]
    number = zlib.crc32(policy.encode())
    return Style(COLOURS[number % len(COLOURS)], ">", "-.")
