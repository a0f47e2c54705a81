"""One sample as a matrix of one row, however it is given."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["one_row"]


def one_row(x: Any, owner: str) -> Any:
    """(1, D) the sample, with the names of its features if it has any, or an error if it is none or several.

    Examples
    --------
    >>> one_row([1.0, 2.0], "x").shape
    (1, 2)
    """
    if hasattr(x, "iloc") and getattr(x, "ndim", 0) == 1:
        return x.to_frame().T  # the row of a data frame
    if hasattr(x, "shape") and len(x.shape) == 2:
        rows: Any = x  # matrices, sparse ones too, and data frames
    else:
        values = np.asarray(x)
        rows = values[None] if values.ndim == 1 else values
    if len(rows.shape) != 2 or rows.shape[0] != 1:
        raise ValueError(
            f"{owner} must be one sample, of shape (n_features,) or (1, n_features), got shape {rows.shape}:"
            " explain samples one by one."
        )
    return rows
