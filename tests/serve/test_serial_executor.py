"""Who works at once: one call of a key, one quick call of all, and slow ones in threads of their own."""

import asyncio
from functools import partial
from random import Random
from threading import Event

import pytest

from stagewise.serve import serial_executor
from stagewise.serve.refusals import TooMany
from stagewise.serve.serial_executor import AT_ONCE, SerialExecutor

THREADS = 4


def carried_out(at_once):
    """What `at_once(executor)` gives on an executor of its own."""

    async def carry_out():
        executor = SerialExecutor("test", THREADS)
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


def slow_calls(count):
    """Keys with work that takes until it is told to go on, what tells it, and which began and ended."""
    go_on, began, ended = Event(), [], []

    def work(number):
        began.append(number)
        assert go_on.wait(60)
        ended.append(number)

    return [(str(number), partial(work, number)) for number in range(count)], go_on, began, ended


def test_slow_calls_hold_up_the_start_of_a_quick_one_by_as_long_as_each_may_be_quick(monkeypatch):
    """Three of four threads are slow: the quick one waits for three starts, then for nobody."""
    clock = 0.0
    monkeypatch.setattr(serial_executor, "monotonic", lambda: clock)
    slow, go_on, began, ended = slow_calls(3)

    async def at_once(executor):
        nonlocal clock
        under_way = [asyncio.create_task(run(executor, *call)) for call in slow]
        await asyncio.sleep(0)
        second = asyncio.create_task(run(executor, "0", lambda: list(ended)))
        quick = asyncio.create_task(run(executor, "quick", lambda: (list(began), list(ended))))
        for number in range(3):
            while len(began) <= number:
                await asyncio.sleep(0.001)
            clock += 0.9 * serial_executor._QUICK_S
            await asyncio.sleep(5 * serial_executor._QUICK_S)  # whoever watches sees no reason
            assert began == list(range(number + 1))
            assert not quick.done()
            clock += 0.2 * serial_executor._QUICK_S
        found = await quick
        again = await run(executor, "quick", lambda: list(ended))
        go_on.set()
        await asyncio.gather(*under_way)
        return found, again, await second

    found, again, after_its_key = carried_out(at_once)
    assert found == ([0, 1, 2], [])
    assert again == []  # nothing but slow calls is under way, and the next starts at once
    assert 0 in after_its_key


def test_each_is_carried_out_once_in_the_order_of_its_key_some_of_them_slow(monkeypatch):
    """Threads take over from one another all the time, and some callers go away."""
    monkeypatch.setattr(serial_executor, "_QUICK_S", 0.001)
    draw = Random(0)
    began, busy = {str(key): [] for key in range(6)}, set()

    def work(key, number, seconds):
        assert key not in busy
        busy.add(key)
        Event().wait(seconds)
        began[key].append(number)
        busy.remove(key)
        return key, number

    async def at_once(executor):
        tasks = {}
        for number in range(40):
            for key in began:
                seconds = 0.004 if draw.random() < 0.1 else 0.0
                call = run(executor, key, partial(work, key, number, seconds))
                tasks[key, number] = asyncio.create_task(call)
            await asyncio.sleep(draw.choice([0, 0.002, 0.006]))
            while sum(not task.done() for task in tasks.values()) > 20:
                await asyncio.sleep(0.001)
            if number % 10 == 0:
                tasks["5", number].cancel()
        return await asyncio.gather(*tasks.values(), return_exceptions=True), list(tasks)

    monkeypatch.setattr(serial_executor, "AT_ONCE", 1000)
    answers, asked = carried_out(at_once)
    for answer, call in zip(answers, asked, strict=True):
        assert answer == call or isinstance(answer, asyncio.CancelledError)
    for key, numbers in began.items():
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 40 or key == "5"


def test_with_a_slow_call_in_every_thread_others_wait_until_one_is_done():
    slow, go_on, began, ended = slow_calls(THREADS)

    async def at_once(executor):
        under_way = [asyncio.create_task(run(executor, *call)) for call in slow]
        await asyncio.sleep(0)
        quick = asyncio.create_task(run(executor, "quick", lambda: list(ended)))
        while len(began) < THREADS:
            await asyncio.sleep(0.001)
        go_on.set()
        await asyncio.gather(*under_way)
        return await quick

    assert carried_out(at_once)


def test_a_place_is_no_position():
    """Of two requests with a place, whichever has its body first is carried out first."""

    async def at_once(executor):
        order = []
        with executor.place("a") as first, executor.place("a") as second:
            await second.run(lambda: order.append("second"))
            await first.run(lambda: order.append("first"))
        return order

    assert carried_out(at_once) == ["second", "first"]


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


def test_once_closed_it_takes_no_calls_and_those_that_wait_are_cancelled():
    slow, go_on, began, _ = slow_calls(1)

    async def at_once(executor):
        under_way = asyncio.create_task(run(executor, *slow[0]))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(run(executor, key, lambda: 1)) for key in ("0", "b")]
        while not began:
            await asyncio.sleep(0.001)
        executor.close()
        with pytest.raises(RuntimeError, match="the executor is closed"):
            await run(executor, "c", lambda: 1)
        await asyncio.sleep(3 * serial_executor._QUICK_S)  # whoever watches finds nothing to do
        go_on.set()
        await under_way
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(found) for found in carried_out(at_once)] == [asyncio.CancelledError] * 2


def test_a_thread_that_cannot_be_started_is_an_error_of_its_call_alone(monkeypatch):
    async def at_once(executor):
        def refuse(*call):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start"):
            patch.setattr(executor._threads, "submit", refuse)
            await run(executor, "a", lambda: 1)
        return await run(executor, "a", lambda: 2)

    assert carried_out(at_once) == 2
