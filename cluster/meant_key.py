"""The key that was meant by one that does not exist: a slip of the pen, another word for it, or another section's.

A key that merely looks alike is not suggested: it would be set, and do something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from pairloom.cluster.config import Config

__all__ = ["is_slip", "key_that_was_meant"]

# Other words for keys: of other packages, of earlier versions, and of everyday speech.
_WORDS = {
    "data.features": ("data", "file", "path", "source", "x", "train", "dataset", "input"),
    "data.label": ("target", "y", "labels", "label_column", "class_column", "response"),
    "data.leave_out": ("drop", "exclude", "ignore", "drop_columns", "ignored_columns"),
    "data.missing": ("na", "nan", "missing_values", "dropna"),
    "data.test_fraction": ("test_size", "test_share", "test_split", "holdout", "split"),
    "graph.family": ("kind", "type", "graph", "topology"),
    "graph.neighbours": ("neighbors", "n_neighbors", "k"),
    "graph.hubs": ("n_hubs", "centres", "centers"),
    "graph.centre": ("center",),
    "model.random_state": ("seed", "random_seed", "rng"),
    "model.coupling": ("method", "coupling_method"),
    "model.C": ("cost", "penalty", "regularization", "regularisation"),
    "model.coupled_calibration": ("calibrate",),
    "model.folds": ("cv", "n_folds", "n_splits", "crossval"),
    "model.tol": ("tolerance", "eps", "epsilon"),
    "model.standardise": ("standardize", "scaler", "standard_scaler", "normalize", "normalise"),
    "model.whiten": ("whitening", "shrinkage"),
    "model.priors": ("prior", "class_prior", "class_priors"),
    "model.class_weight": ("class_weights", "weights"),
    "growth.pairs": ("max_pairs", "budget", "most_pairs"),
    "growth.seconds": ("time", "timeout", "max_seconds", "time_limit"),
    "growth.plateau": ("patience", "early_stopping"),
    "growth.wave": ("step", "batch", "wave_size"),
    "cluster.kind": ("type", "backend", "executor"),
    "cluster.workers": ("n_jobs", "n_workers", "processes", "threads", "cores", "cpus", "jobs"),
    "cluster.scheduler": ("address", "url", "host"),
    "run.name": ("title", "directory", "id"),
    "run.also_couple": ("couplings", "methods"),
    "run.memory_limit": ("memory", "max_memory", "ram"),
}


#: A shorter word with a slip may well be meant as it is.
_LONG = 6


def key_that_was_meant(location: Sequence[str], beside: Sequence[str]) -> str:
    """A question with the key that was meant by an unknown one, or the keys that there are.

    Parameters
    ----------
    location : sequence of str
        The parts of the unknown key, such as ``("graph", "hub")``.
    beside : sequence of str
        The keys of its section.
    """
    *above, word = location
    section = ".".join(above)
    if meant := _slip(word, beside) or _other_word(word, section) or _of_another_section(word, section):
        return f" Did you mean {meant!r}?"
    return f" Known: {', '.join(beside)}."


def _slip(word: str, beside: Sequence[str]) -> str | None:
    return next((key for key in beside if is_slip(word, key)), None)


def _other_word(word: str, section: str) -> str | None:
    """The key that a word stands for, one of its own section first."""
    exact = [key for key, words in _WORDS.items() if word.lower() in words]
    found = exact or [
        key for key, words in _WORDS.items() if any(_is_long_slip(word, other) for other in words)
    ]
    own = [key.removeprefix(f"{section}.") for key in found if key.startswith(f"{section}.")]
    return next(iter([*own, *found]), None) if own or len(found) == 1 else None


def _of_another_section(word: str, section: str) -> str | None:
    """The key of the only other section that has it."""
    found = [f"{name}.{word}" for name, keys in _sections() if word in keys and name != section]
    return found[0] if len(found) == 1 else None


def _sections() -> list[tuple[str, list[str]]]:
    found = []
    for name, field in Config.model_fields.items():
        parts = getattr(field.annotation, "__args__", (field.annotation,))
        (keys,) = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        found.append((name, list(keys.model_fields)))
    return found


def _is_long_slip(word: str, other: str) -> bool:
    """Whether a word is another word with a slip, long enough not to be yet another one."""
    return len(other) >= _LONG and is_slip(word, other)


def is_slip(word: str, key: str) -> bool:
    """Whether a word is a key with a slip: one letter too many, too few, wrong or swapped; two in a long word.

    Examples
    --------
    >>> is_slip("fodls", "folds"), is_slip("hub", "hubs"), is_slip("cost", "coef0")
    (True, True, False)
    """
    word, key = (text.lower().replace("_", "") for text in (word, key))
    most = 0 if len(key) < 3 else 1 if len(key) < 8 else 2
    return _slips(word, key) <= most


def _slips(a: str, b: str) -> int:
    """Letters to insert, remove, replace, or swap with the next one, to make one word of the other."""
    rows = [list(range(len(b) + 1))]
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
