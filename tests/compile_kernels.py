"""Compile what planning and deciding need and keep it on disk.

Run before the tests: with an empty cache each of their processes would compile the same for itself.
"""

from stagewise.loading import load
from stagewise.plan_b.pool import load_clusters
from stagewise.policies.exact import load_exact
from stagewise.pool.windows import load_windows
from stagewise.warm_up import load_association, load_search

if __name__ == "__main__":
    load(load_search, load_clusters, load_association, load_exact, load_windows)
