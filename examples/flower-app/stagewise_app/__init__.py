"""A Flower app in which a stagewise policy decides who trains, and at which edge."""
