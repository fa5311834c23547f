"""What a round has the time for, by how many edges there are."""

FEW_EDGES = 6
"""Up to here a round has many clusters of each edge, and all choices are searched."""
SOME_EDGES = 20
"""Up to here the beam over all edges is wide, all choices are searched where limits would stay broken,
and fast links by themselves where delay is most of the cost."""
MANY_EDGES = 100
"""Beyond, milliseconds for each edge add up: there are fewer clusters of each, and fewer steps."""
CLUSTERS_AT_ONCE = 500_000
"""Where arrays many times as large are made of them."""
