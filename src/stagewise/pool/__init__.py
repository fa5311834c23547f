"""A pool of clusters: good sets of clients for every edge, found ahead, picked from in each round."""
