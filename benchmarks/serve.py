"""The service beside the library: what HTTP costs a decision, and what kills and nonsense do to it.

    python benchmarks/serve.py overhead            # decisions in turn over HTTP and in process
    python benchmarks/serve.py clients             # eight at once, each with a federation of its own
    python benchmarks/serve.py clients --same      # eight at once, all of one federation
    python benchmarks/serve.py memory --decisions 100000
    python benchmarks/serve.py kills --moments 50  # on SQLite; --store postgresql for the other
    python benchmarks/serve.py malformed --requests 10000
    python benchmarks/serve.py replanning          # decisions while a plan is being made
    python benchmarks/serve.py watching --pairs 10 # one run, in turn watched and not

A real server process on loopback with the default store; 93 clients and 4 edges under `pool`. Times are
milliseconds.
"""

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import numpy as np

import stagewise
from stagewise.client import Federation
from stagewise.client.http import Connection
from stagewise.client.wire import request_of
from stagewise.decisions import make_decision
from stagewise.outcomes import expected_outcome
from stagewise.policies.policy import Policy
from stagewise.world.rounds import Round

sys.path += [str(Path(__file__).parents[1] / "tests" / part) for part in ("", "serve")]

ROUNDS = 400


@contextmanager
def server(store: str | None = None, *more: str) -> Iterator[tuple[str, int]]:
    """The address of a server, and its process."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "stagewise", "serve", "--port", str(port), "--rate", "1e6"]
        command += ["--store", store or str(Path(folder) / "store.db"), *more]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
        address = f"http://127.0.0.1:{port}"
        try:
            Connection(urlsplit(address), None, 120.0, None).ask("GET", "/readyz")
            yield address, running.pid
        finally:
            running.terminate()
            running.wait(30)


def system() -> tuple[stagewise.Scenario, list[Round]]:
    scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
    return scenario, stagewise.participation.bernoulli(scenario, rounds=ROUNDS, seed=1)


def timed(policy: Policy, round_: Round) -> float:
    """Milliseconds of a decision, without what is told of it afterwards."""
    began = time.perf_counter()
    policy.decide(round_)
    return 1000 * (time.perf_counter() - began)


def spread(times: list[float]) -> str:
    low, high = np.percentile(times, [50, 99])
    return f"median {low:.2f}, 99% {high:.2f}"


def overhead(arguments: argparse.Namespace) -> None:
    """The same rounds in turn, so that both meet the same machine."""
    scenario, rounds = system()
    own = stagewise.make_policy("pool", scenario)
    with server(arguments.store) as (address, pid):
        asked = Federation(f"{address}/pool", scenario)
        cpu = -cpu_seconds(pid)
        pairs = [(timed(own, round_), timed(asked, round_)) for round_ in rounds]
        cpu += cpu_seconds(pid)
        asked.close()
    inside, outside = zip(*pairs[20:], strict=True)
    print(f"in process: {spread(list(inside))}")
    print(f"over HTTP:  {spread(list(outside))}")
    least, half = np.percentile(np.subtract(outside, inside), [10, 50])
    print(f"difference: a tenth of the rounds below {least:.2f}, median {half:.2f}")
    print(f"processor time of the server for each: {1000 * cpu / len(pairs):.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def clients(arguments: argparse.Namespace) -> None:
    """Eight at once, and before that one alone, so that both meet the same machine."""
    scenario, rounds = system()
    bodies = [msgspec.json.encode(request_of(round_, {})) for round_ in rounds]
    # A round of one federation is whichever comes next; in turn each has its own number.
    anyone = [msgspec.json.encode({"online": round_.online_ids}) for round_ in rounds]
    with server(arguments.store) as (address, pid):
        names = [f"f{number}" for number in range(9)]
        for seed, name in enumerate(names):
            Federation(f"{address}/pool?name={name}", scenario, seed=seed).close()

        def ask(name: str) -> list[float]:
            connection, times = Connection(urlsplit(address), None, 60.0, None), []
            for body in anyone if arguments.same else bodies:
                began = time.perf_counter()
                connection.ask("POST", f"/v1/federations/{name}/decisions", body)
                times.append(1000 * (time.perf_counter() - began))
            connection.close()
            return times

        print(f"one alone: {spread(ask(names[8]))}")
        cpu, own = -cpu_seconds(pid), -time.process_time()
        with ThreadPoolExecutor(8) as executor:
            began = time.perf_counter()
            asked = names[:1] * 8 if arguments.same else names[:8]
            times = [t for found in executor.map(ask, asked) for t in found]
        taken = time.perf_counter() - began
        cpu, own = cpu + cpu_seconds(pid), own + time.process_time()
    which = "of one federation" if arguments.same else "of a federation each"
    print(f"eight {which}: {spread(times)}; {len(times) / taken:.0f} decisions a second")
    each = [1000 * seconds / len(times) for seconds in (cpu, own)]
    print(f"processor time for each: {each[0]:.2f} of the server, {each[1]:.2f} of the clients")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def memory(arguments: argparse.Namespace) -> None:
    scenario, rounds = system()
    with server(arguments.store) as (address, pid):
        asked = Federation(f"{address}/pool", scenario)
        for index in range(arguments.decisions):
            round_ = Round(scenario, rounds[index % ROUNDS].online, index)
            answer = asked.decide(round_)
            if index % 10 == 0:
                made = make_decision(round_, answer, method="", decision_ms=0.0)
                asked.observe(expected_outcome(made))
            if index in (1000, arguments.decisions - 1) or index % 10_000 == 0:
                print(f"after {index + 1} decisions: {resident(pid):.0f} MB", flush=True)
        asked.close()


def cpu_seconds(pid: int) -> float:
    """What a process has used of processors, in ticks of mostly 10 ms, ended threads included."""
    # The second field, a name in brackets, may hold spaces; user and system time are 14 and 15.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def kills(arguments: argparse.Namespace) -> None:
    from kill_cases import kill_under_load

    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or str(Path(folder) / "store.db")
        told, moments = kill_under_load(store, arguments.moments, Path(folder), arguments.seed)
    print(
        f"{moments} kills, {told} decisions acknowledged: each is there once, as the policy decides"
    )


def malformed(arguments: argparse.Namespace) -> None:
    import malformed as cases

    draw = random.Random(arguments.seed)
    statuses: dict[int, int] = {}
    scenario, _ = system()
    with server(arguments.store) as (address, _):
        Federation(f"{address}/fedcs?name=a", scenario).close()
        port = urlsplit(address).port or 0
        for _ in range(arguments.requests):
            method, path, body, headers = cases.request(draw)
            with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request(method, path, body, headers)
                status = connection.getresponse().status
            statuses[status] = statuses.get(status, 0) + 1
    print(", ".join(f"{count} x {status}" for status, count in sorted(statuses.items())))


def replanning(arguments: argparse.Namespace) -> None:
    scenario, rounds = system()
    with server(arguments.store) as (address, _):
        asked = Federation(f"{address}/pool?name=a", scenario)
        quiet = [timed(asked, round_) for round_ in rounds[:100]]
        job = Connection(urlsplit(address), None, 60.0, None)
        job.ask("POST", "/v1/federations/a/plans", b'{"seed": 1}')
        busy: list[float] = []
        for round_ in rounds[100:]:
            busy.append(timed(asked, round_))
            if b'{"number":1' in job.ask("GET", "/v1/federations/a/plans")[0]:
                break
        asked.close()
        job.close()
    print(f"without: {spread(quiet)}\nwhile a plan is made: {spread(busy)} ({len(busy)} decisions)")


def watching(arguments: argparse.Namespace) -> None:
    """One run, in turn with a page open and without, for some seconds each."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server(arguments.store, "--runs", folder) as (address, pid),
    ):
        out, spawning = Path(folder) / "run", get_context("spawn")
        running = spawning.Process(target=_simulated, args=(out,))
        running.start()
        while len(_wall_seconds(out)) < 3:  # what is loaded and compiled is no part of it
            time.sleep(0.5)
        blocks: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for number in range(2 * arguments.pairs):
            watched = (number + number // 2) % 2 == 0  # with, without, without, with
            page = spawning.Process(target=_page, args=(address, out.name))
            if watched:
                page.start()
                time.sleep(2.0)  # until it has fetched what there is
            before, cpu, began = len(_wall_seconds(out)), -cpu_seconds(pid), time.perf_counter()
            time.sleep(arguments.seconds)
            cpu, taken = cpu + cpu_seconds(pid), time.perf_counter() - began
            rounds = _wall_seconds(out)[before + 1 :]
            if watched:
                page.terminate()
                page.join()
            if rounds:
                blocks[watched].append((float(np.mean(rounds)), 100 * cpu / taken))
        running.terminate()
        running.join()
    time_of = {watched: np.array(found)[:, 0] for watched, found in blocks.items()}
    share = {watched: np.array(found)[:, 1] for watched, found in blocks.items()}
    _tell("time of a round, watched over unwatched, in %", time_of, lambda w, n: 100 * (w / n - 1))
    _tell("processor time of the server, % of a core more", share, lambda w, n: w - n)
    print(f"server, nobody watching: {share[False].mean():.2f}% of a core")
    print(
        f"a round: {time_of[False].mean():.2f} s; {len(share[True])} + {len(share[False])} blocks"
    )
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def _tell(
    what: str,
    found: dict[bool, np.ndarray],
    compare: Callable[[float, float], float],
    draws: int = 2000,
) -> None:
    """The comparison of two means with its 95% interval, by drawing the blocks again."""
    random_ = np.random.default_rng(0)
    again = [
        compare(*(random_.choice(found[w], len(found[w])).mean() for w in (True, False)))
        for _ in range(draws)
    ]
    low, high = np.percentile(again, [2.5, 97.5])
    value = compare(found[True].mean(), found[False].mean())
    print(f"{what}: {value:+.2f} (95%: {low:+.2f} to {high:+.2f})")


def _simulated(out: Path) -> None:
    """A run on the default system that lasts as long as it is looked at."""
    stagewise.simulate(rounds=5000, out=out)


def _wall_seconds(out: Path) -> list[float]:
    """How long each round of a run took so far."""
    path = out / "rounds.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return [msgspec.json.decode(line)["wall_s"] for line in lines]


def _page(address: str, run: str) -> None:
    """What the page asks: the stream, and at most every two seconds the lines that are new."""
    files = Connection(urlsplit(address), None, 60.0, None)

    def update(known: int) -> int:
        complete: int = msgspec.json.decode(files.ask("GET", f"/v1/run?run={run}")[0])["complete"]
        part = f"first={max(0, known - 1)}&count={max(1, complete - known + 1)}"
        for name in ("rounds.jsonl", "decisions.jsonl", "online.jsonl"):
            files.ask("GET", f"/v1/run/files/{name}?run={run}&{part}")
        return complete

    known = update(0)
    stream = HTTPConnection("127.0.0.1", urlsplit(address).port or 0, timeout=600)
    stream.request("GET", f"/v1/run/events?run={run}&after={known - 1}")
    answer = stream.getresponse()
    due = 0.0
    while line := answer.readline():
        if line.startswith(b"data") and time.monotonic() > due:
            due = time.monotonic() + 2.0
            known = update(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = (overhead, clients, memory, kills, malformed, replanning, watching)
    parser.add_argument("what", choices=[part.__name__ for part in what])
    parser.add_argument(
        "--store",
        help="PostgreSQL's address, or `postgresql` for a server of our own; default: SQLite.",
    )
    parser.add_argument("--same", action="store_true", help="All clients ask one federation.")
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=10, help="Blocks watched, and as many not.")
    parser.add_argument("--seconds", type=float, default=10.0, help="Of each block.")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        if arguments.store == "postgresql":
            import postgresql_server

            within = postgresql_server.programs()
            if within is None:
                sys.exit("store = 'postgresql': no server of PostgreSQL is installed")
            address = stack.enter_context(postgresql_server.running(within))
            arguments.store = postgresql_server.new_database(address)
        next(part for part in what if part.__name__ == arguments.what)(arguments)


if __name__ == "__main__":
    main()
