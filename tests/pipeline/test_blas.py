"""BLAS has one thread while something is computed, and afterwards as many as before."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pairloom.pipeline.threads import one_blas_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_there_is_one_thread_inside_and_as_many_as_before_outside():
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}, "an inner user does not end the outer one"
    assert blas_threads() == {2}


def test_an_error_gives_the_threads_back():
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == {2}


def test_predictions_in_many_threads_leave_blas_as_they_found_it(data):
    from fitted_models import fitted

    model = fitted(data)
    expected = model.predict_proba(data.X_new)
    with ThreadPoolExecutor(8) as pool:
        for p in pool.map(lambda _: model.predict_proba(data.X_new), range(60)):
            assert (p == expected).all()
    assert blas_threads() == {2}


def test_another_thread_may_be_the_last_to_leave():
    """threadpoolctl heeds the thread that set a limit first, and ignores all others."""
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with one_blas_thread():
            entered.set()
            leave.wait()

    other = threading.Thread(target=stay)
    with one_blas_thread():
        other.start()
        entered.wait()
    assert blas_threads() == {1}, "the other thread still computes"
    leave.set()
    other.join()
    assert blas_threads() == {2}
