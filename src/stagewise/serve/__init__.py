"""The planner as a service: an API, what it keeps, and a page to watch and try things on."""
