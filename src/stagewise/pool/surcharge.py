"""A price for every client on top of its energy, in every search alike."""

from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray


def surcharged(instance: Instance, surcharge: FloatArray | None) -> Instance:
    """`instance` in which serving costs client i surcharge[i] more, whatever the weights."""
    if surcharge is None:
        return instance
    weight = instance.energy_weight
    return instance._replace(
        link_energy=weight * instance.link_energy + surcharge[instance.link_client],
        uplink_energy=weight * instance.uplink_energy,
        energy_weight=1.0,
    )
