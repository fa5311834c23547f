"""The networks of the paper's experiments, built by name; needs PyTorch."""

from stagewise.models.catalogue import MODELS, build_model, parameter_count

__all__ = ["MODELS", "build_model", "parameter_count"]
