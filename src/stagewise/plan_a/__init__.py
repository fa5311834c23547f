"""Plan A: before training, who will probably be there, and at which edge."""
