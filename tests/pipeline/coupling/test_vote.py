from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairloom import couple


def by_counting(logits):
    n = len(logits)
    wins = Counter()
    for i in range(n):
        for j in range(n):
            if i != j:
                wins[i] += 1 if logits[i, j] > 0 else 0.5 if logits[i, j] == 0 else 0
    return np.array([wins[i] for i in range(n)]) / (n * (n - 1) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data(), n=st.integers(2, 8))
def test_against_counting(dtype, data, n):
    # Few values, so that ties are common.
    upper = np.triu(data.draw(hnp.arrays(int, (n, n), elements=st.integers(-1, 1))), 1).astype(dtype)
    logits = upper - upper.T
    assert couple(logits[:, :, None], "vote")[0] == pytest.approx(by_counting(logits), abs=1e-6)


def test_among_equals_the_first_class_wins():
    cycle = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], float)[:, :, None]
    assert couple(cycle, "vote").argmax() == 0


def test_only_signs_count(noisy_logits):
    logits = noisy_logits(7, 20)
    assert np.array_equal(couple(logits, "vote"), couple(np.sign(logits), "vote"))


def test_the_diagonal_is_no_contest(noisy_logits):
    """Logits need to be antisymmetric up to rounding only; 1e-6 on the diagonal is not a win."""
    logits = noisy_logits(4, 5)
    off = logits + np.float32(1e-6) * np.eye(4, dtype=np.float32)[:, :, None]
    assert np.array_equal(couple(off, "vote"), couple(logits, "vote"))
