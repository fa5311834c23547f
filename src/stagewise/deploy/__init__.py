"""Training outside the simulator: a cloud, edges and clients as processes, on Flower."""
