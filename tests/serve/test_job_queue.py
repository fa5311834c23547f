"""What is ordered, once and not too much of it, and what is told of it."""

import json

import pytest

from stagewise.serve.event_routes import jobs_of
from stagewise.serve.job_queue import JobQueue
from stagewise.serve.refusals import Conflict, TooMany
from stagewise.serve.store import Store


@pytest.fixture
def queue(store_url):
    store = Store(store_url)
    yield JobQueue(store.database)
    store.close()


def test_a_key_is_one_job_with_one_content(queue):
    for federation in ("a", None):
        number = queue.order(federation, "plan", "k", b"{}")
        assert queue.order(federation, "plan", "k", b"{}") == number
        assert queue.order(federation, "plan", None, b"{}") != number
        with pytest.raises(Conflict, match="other settings"):
            queue.order(federation, "plan", "k", b'{"seed":1}')


def test_bounds_of_a_run_that_failed_can_be_ordered_again(queue):
    first = queue.order(None, "bounds", "r up to round 3", b"{}")
    queue.end(queue.job(first), error="no such file")
    assert queue.order(None, "bounds", "r up to round 3", b"{}") != first


def test_jobs_of_one_kind_keep_no_other_kind_out(queue):
    first = queue.order(None, "bounds", "0", b"{}")
    for key in range(1, 64):
        queue.order(None, "bounds", str(key), b"{}")
    with pytest.raises(TooMany):
        queue.order(None, "bounds", "64", b"{}")
    assert queue.order(None, "bounds", "0", b"{}") == first  # it is no new one
    queue.order("a", "plan", None, b"{}")


@pytest.mark.parametrize(("error", "state"), [(None, "done"), ("no such file", "failed")])
def test_what_is_told_of_a_job_that_is_over_changes_nothing(queue, error, state):
    """The thread that tells how far a job is may be late."""
    queue.order("a", "plan", None, b"{}")
    job = queue.take(["plan"])
    queue.tell(job, 0.4)
    assert queue.job(job.number).progress == 0.4
    queue.end(job, error=error)
    queue.tell(job, 0.6)
    left = queue.job(job.number)
    assert (left.state, left.progress, left.error) == (state, 1.0, error)


def test_a_job_that_ends_between_two_streams_is_told_by_the_next(queue):
    def told(jobs):
        return [(one["number"], one["state"]) for one in (json.loads(data) for *_, data in jobs())]

    assert told(jobs_of(queue, "a")) == []
    first, second = (queue.order("a", "plan", None, b"{}") for _ in range(2))
    stream = jobs_of(queue, "a")
    assert told(stream) == [(first, "queued"), (second, "queued")]
    assert told(stream) == []
    queue.end(queue.take(["plan"]))
    assert told(stream) == [(first, "done")]
    assert told(jobs_of(queue, "a")) == [(second, "queued")]
    queue.end(queue.take(["plan"]), error="no such client")
    again = jobs_of(queue, "a")
    assert told(again) == [(second, "failed")]
    assert told(again) == []
