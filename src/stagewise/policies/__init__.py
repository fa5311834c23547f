"""Policies: ours, those of the paper, and wrappers that change what any of them decides."""
