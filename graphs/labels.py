"""Classes and other names in messages: quoted, shortened, and with the nearest known name."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any

__all__ = ["did_you_mean", "listed", "quoted"]


def quoted(label: object) -> str:
    """Return a label as the user wrote it.

    Examples
    --------
    >>> import numpy as np
    >>> quoted(np.str_("cat")), quoted(np.int64(3))
    ("'cat'", '3')
    """
    # repr alone would show a NumPy scalar as np.str_('cat').
    plain: Any = label.item() if hasattr(label, "item") and getattr(label, "ndim", 1) == 0 else label
    return repr(plain)


def listed(labels: Iterable[object], most: int = 5) -> str:
    """Return labels separated by commas: the first `most`, and the number of the others.

    Examples
    --------
    >>> listed(["cat", "dog"])
    "'cat', 'dog'"
    >>> listed(range(1000), most=3)
    '0, 1, 2 and 997 more'
    """
    labels = list(labels)
    shown = ", ".join(quoted(label) for label in islice(labels, most))
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return a question with the known name nearest to `name`, or an empty string if none is near.

    Examples
    --------
    >>> did_you_mean("bipartit", ["star", "bipartite"])
    " Did you mean 'bipartite'?"
    >>> did_you_mean("zebra", ["star", "bipartite"])
    ''
    """
    by_text = {str(label): label for label in known}
    return "".join(
        f" Did you mean {quoted(by_text[text])}?" for text in get_close_matches(str(name), by_text, n=1)
    )
