"""Where everyone runs, as a command line says it: HOST:PORT, ID=HOST:PORT, ID=HOST:EDGE,EDGE."""

from collections.abc import Sequence

from msgspec import structs

from stagewise.deploy.site import CLOUD_PORT, EDGE_PORT, ClientSite, Cloud, EdgeSite
from stagewise.errors import StagewiseError, shown


def parse_cloud(text: str) -> Cloud:
    """`HOST[:PORT]`."""
    host, port = _split("cloud", text, text)
    return Cloud(host=host, port=CLOUD_PORT if port is None else _port("cloud", text, port))


def parse_edges(texts: Sequence[str], cloud: Cloud) -> tuple[EdgeSite, ...]:
    """`ID=HOST[:PORT]` each, or `ID` alone; ids with commas between share a host.

    Edges without a port take the first free ones of their host from 9093 on.
    """
    edges: list[EdgeSite] = []
    for text in texts:
        ids, equals, place = text.partition("=")
        host, port = _split("edge", text, place) if equals else (None, None)
        number = None if port is None else _port("edge", text, port)
        edges += [EdgeSite(id=name, host=host, port=number) for name in _names("edge", text, ids)]
    taken = {cloud.place} | {edge.place for edge in edges if edge.host and edge.port}
    for index, edge in enumerate(edges):
        if edge.host is not None and edge.port is None:
            free = next(n for n in range(EDGE_PORT, 2**16) if (edge.host, n) not in taken)
            edges[index] = structs.replace(edge, port=free)
            taken.add((edge.host, free))
    return tuple(edges)


def parse_clients(texts: Sequence[str], edges: Sequence[EdgeSite]) -> tuple[ClientSite, ...]:
    """`ID=HOST[:EDGE,EDGE]` each; without edges all of them; ids with commas between share the rest."""
    clients = []
    for text in texts:
        ids, equals, place = text.partition("=")
        if not equals:
            raise StagewiseError(f"client = {shown(text)}: must be ID=HOST or ID=HOST:EDGE,EDGE")
        host, chosen = _split("client", text, place)
        covering = (
            tuple(edge.id for edge in edges)
            if chosen is None
            else tuple(_names("client", text, chosen))
        )
        clients += [
            ClientSite(id=name, host=host, edges=covering) for name in _names("client", text, ids)
        ]
    return tuple(clients)


def _split(option: str, text: str, place: str) -> tuple[str, str | None]:
    """`HOST` and what follows its colon; an IPv6 address stands in brackets."""
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise StagewiseError(f"{option} = {shown(text)}: must have an address in [brackets]")
        return host, rest[1:] if rest else None
    host, colon, rest = place.partition(":")
    if option != "client" and ":" in rest:
        raise StagewiseError(
            f"{option} = {shown(text)}: must have an IPv6 address in brackets, as [fd00::1]:9092"
        )
    return host, rest if colon else None


def _port(option: str, text: str, port: str) -> int:
    if not (port.isascii() and port.isdecimal()):
        raise StagewiseError(f"{option} = {shown(text)}: must have a whole number as its port")
    return int(port[:6])  # too large is refused where its place is known


def _names(option: str, text: str, names: str) -> list[str]:
    if not all(names.split(",")):
        raise StagewiseError(f"{option} = {shown(text)}: must not have an empty name")
    return names.split(",")
