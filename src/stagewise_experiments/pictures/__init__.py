"""Pictures of results in the paper's forms: curves, bars, sweeps and matrices."""
