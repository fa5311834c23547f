"""Who trains, then where: selectors and associators, which compose into policies."""
