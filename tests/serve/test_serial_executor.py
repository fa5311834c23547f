"""Who works at once: one call of a key, one quick call of all, and slow ones in nobody's way."""

import asyncio
from threading import Event

import pytest

from stagewise.serve import serial_executor
from stagewise.serve.refusals import TooMany
from stagewise.serve.serial_executor import AT_ONCE, SerialExecutor


def carried_out(at_once):
    """What `at_once(executor)` gives on an executor of its own."""

    async def carry_out():
        executor = SerialExecutor("test", 4)
        try:
            return await asyncio.wait_for(at_once(executor), 60)
        finally:
            executor.close()

    return asyncio.run(carry_out())


async def run(executor, key, work):
    with executor.place(key) as place:
        return await place.run(work)


def test_quick_calls_follow_one_another(monkeypatch):
    monkeypatch.setattr(serial_executor, "_QUICK_S", 60.0)
    under_way, most = 0, 0

    def work():
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        Event().wait(0.002)
        under_way -= 1

    async def at_once(executor):
        await asyncio.gather(*(run(executor, str(number), work) for number in range(8)))

    carried_out(at_once)
    assert most == 1


def test_a_slow_call_keeps_nobody_but_its_own_key_waiting():
    go_on, order = Event(), []

    def slow():
        assert go_on.wait(60)
        order.append("slow")

    async def at_once(executor):
        first = asyncio.create_task(run(executor, "a", slow))
        await asyncio.sleep(0)
        second = asyncio.create_task(run(executor, "a", lambda: order.append("after it")))
        await run(executor, "b", lambda: order.append("quick"))
        go_on.set()
        await asyncio.gather(first, second)

    carried_out(at_once)
    assert order == ["quick", "slow", "after it"]


def test_an_error_goes_to_its_caller_and_the_next_one_is_carried_out():
    async def at_once(executor):
        with pytest.raises(ZeroDivisionError):
            await run(executor, "a", lambda: 1 / 0)
        return await run(executor, "a", lambda: 2)

    assert carried_out(at_once) == 2


def test_places_of_a_key_are_few_and_given_back():
    async def at_once(executor):
        held = [executor.place("a") for _ in range(AT_ONCE)]
        for place in held:
            place.__enter__()
        with pytest.raises(TooMany, match="a: 8 requests wait already"), executor.place("a"):
            pass
        with executor.place("b"):
            pass
        held[0].__exit__(None, None, None)
        return await run(executor, "a", lambda: 1)

    assert carried_out(at_once) == 1
