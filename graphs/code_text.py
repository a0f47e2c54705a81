"""A code matrix as text, one word per machine: ``"+-0"`` has class 0 against class 1, without class 2."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["code_as_text", "code_from_text"]


def code_as_text(matrix: NDArray[np.int8]) -> list[str]:
    """Return the columns of a code as words.

    Examples
    --------
    >>> code_as_text(np.array([[1, 1], [-1, 0], [0, -1]], np.int8))
    ['+-0', '+0-']
    """
    letters = np.frombuffer(b"-0+", np.uint8)[matrix.T + 1]
    return [word.tobytes().decode() for word in letters]


def code_from_text(words: Sequence[str]) -> NDArray[np.int8]:
    """Return the code whose columns are these words.

    Examples
    --------
    >>> code_from_text(["+-0", "+0-"]).tolist()
    [[1, 1], [-1, 0], [0, -1]]
    """
    letters = np.frombuffer("".join(words).encode(), np.uint8).reshape(len(words), -1)
    matrix: NDArray[np.int8] = (letters == ord("+")).astype(np.int8) - (letters == ord("-")).astype(np.int8)
    return np.ascontiguousarray(matrix.T)
