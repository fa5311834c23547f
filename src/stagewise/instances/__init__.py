"""Instances by name: systems with rounds that everybody can make again, and what is known of them."""
