"""What is ordered, once and not too much of it."""

import pytest

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
