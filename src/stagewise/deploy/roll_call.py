"""Who is there: every connected node is asked, and those who answer in time are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from stagewise.deploy.edge_rounds import POLL_S, REAL_TIME, Letter, Post, Time
from stagewise.deploy.messages import QUERY, Hello, Here, pack, read
from stagewise.errors import StagewiseError


class Listing(Post, Protocol):
    """A post that knows who is connected."""

    def names(self) -> tuple[str, ...]: ...


def roll_call(
    post: Listing,
    names: Collection[str],
    deadline_s: float,
    margin_s: float = 0.0,
    time: Time = REAL_TIME,
) -> dict[str, tuple[Here, float]]:
    """The answers of those among `names` who are connected, and the seconds each took.

    Whoever asks others in turn has `margin_s` less. A node that says it is someone other than it was
    registered as is not there.
    """
    began = time.now()
    asked = [name for name in post.names() if name in names]
    hello = pack(Hello(deadline_s=max(deadline_s - margin_s, 0.0)))
    numbers = post.send([Letter(name, QUERY, hello) for name in asked], deadline_s)
    waiting = {number: name for number, name in zip(numbers, asked, strict=True) if number}
    here: dict[str, tuple[Here, float]] = {}
    while waiting and time.now() - began < deadline_s:
        answers, took_s = post.collect(), time.now() - began
        if took_s >= deadline_s:
            break
        for answer in answers:
            name = waiting.pop(answer.letter, None)
            if name is None or answer.content is None:
                continue
            try:
                said = read(answer.content, Here)
            except StagewiseError:
                continue
            if said.id == name:
                here[name] = said, took_s
        if waiting and not answers:
            time.wait(POLL_S)
    return here
