"""Signals are not lost, even if the KeyboardInterrupt that they raise is."""

import contextlib
import os
import signal

import pytest

from pairloom.cluster.interrupts import Terminated, raise_if_interrupted, remembered_interrupts


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_swallowed_signal_is_raised_again(number, raised):
    with remembered_interrupts():
        raise_if_interrupted()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        with pytest.raises(raised):
            raise_if_interrupted()
    raise_if_interrupted()


def test_the_handlers_of_before_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), remembered_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
