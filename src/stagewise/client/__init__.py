"""For programs that ask a service of Stagewise."""
