"""How policies and data sets are called, the same in every picture and table."""

from stagewise.selection.catalogue import LABEL_WEIGHTS

REFERENCE = "orig-prob-solver"
"""The paper draws the others against it."""

OURS = "pool-flexible"
PAPER_METHODS = (
    "stagewise-paper",
    "orig-prob-solver",
    "kld-minimization",
    "client-sel-only",
    "c2e-assoc-only",
    "c2e-greedy-assoc",
    "fedcs",
)

POLICY_NAMES = {
    "pool-flexible": "pool (ours)",
    "pool-strict": "pool, strict (ours)",
    "pool": "pool (ours)",
    "stagewise-paper": "StagewiseHFL",
    "stagewise-paper-flexible": "StagewiseHFL without (12d)",
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

CLASSES = {
    "mnist": 10,
    "mnist5k": 10,
    "digits": 10,
    "fashion-mnist": 10,
    "cifar10": 10,
    "cifar100": 100,
    "tiny-imagenet": 200,
    "tiny-imagenet-50": 50,
    "aid15": 15,
}
"""By data set: guessing is right once in so many times."""


def policy_name(policy: str) -> str:
    """As in the paper where it has the policy; a policy of a user's own by its name.

    Behind it stands how a method is read, if in another way than everywhere else, and whether clients
    are weighted by their labels.
    """
    unweighted = policy.removesuffix(LABEL_WEIGHTS)
    if unweighted != policy:
        return f"{policy_name(unweighted)} + label weights"
    base, _, reading = policy.partition(":")
    name = POLICY_NAMES.get(base, base)
    return f"{name} ({reading.replace(',', ', ')})" if reading else name


def dataset_name(dataset: str) -> str:
    return DATASET_NAMES.get(dataset, dataset)
