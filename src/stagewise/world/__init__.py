"""The world: clients, edge servers, links, who is online, and what a round costs."""
