"""The problems of a configuration, one line per key: the requirement, the given value, or the key probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic import BaseModel

from pairloom.cluster.config.config_reference import sections
from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.config.cluster_config import is_shown
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import PATTERNS, ModelConfig
from pairloom.pipeline.model.rules import CONFIGURATION, requirement, words_among
from pairloom.pipeline.model.settings import VALUES
from pairloom.pipeline.storage.location import without_credentials

__all__ = ["did_you_mean_key", "problems_of", "similar"]


def problems_of(details: list[dict[str, Any]], tables: dict[str, Any]) -> list[str]:
    """One line per key. If a key may have several types, pydantic reports a problem with each."""
    by_key: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for detail in details:
        by_key.setdefault(_key_in_file(detail, tables), []).append(detail)
    # A problem inside a list or a table makes the other types of its key irrelevant.
    inner = {key[:length] for key in by_key for length in range(len(key))}
    return [_problem(key, of_key) for key, of_key in by_key.items() if key not in inner]


def _problem(location: tuple[str, ...], details: list[dict[str, Any]]) -> str:
    key, detail = ".".join(location), details[0]
    values = _values_of_parameter(location)
    if detail["type"] == "extra_forbidden":
        return f"{key}: unknown key.{did_you_mean_key(location, _keys_beside(location))}"
    if detail["type"] == "missing":
        return f"{key}: missing, and there is no default."
    if detail["type"] == "value_error" and isinstance(detail["input"], dict):
        return f"{detail['ctx']['error']}."  # checks of whole sections name the keys themselves
    value = detail["input"]
    if isinstance(value, str):
        value = without_credentials(value)
    got = repr(value) if is_shown(key) else f"a {type(value).__name__}"  # it may be a secret
    if values is not None:
        must = f"must be {requirement(values, CONFIGURATION)}"
        return f"{key} {must}, got {got}.{did_you_mean(value, words_among(values)) if isinstance(value, str) else ''}"
    return f"{key} {_or([_requirement(detail) for detail in details])}, got {got}."


def _values_of_parameter(location: tuple[str, ...]) -> Any:
    """The values of a parameter that PairwiseSVC checks by the same type; None for other keys."""
    if len(location) != 2 or location[0] != "model" or location[1] not in VALUES:
        return None
    return get_type_hints(ModelConfig, include_extras=True)[location[1]]


def _requirement(detail: dict[str, Any]) -> str:
    """The requirement on a value, in the words of this package."""
    if detail["type"] == "string_pattern_mismatch":
        return f"must be {PATTERNS[detail['ctx']['pattern']]}"
    text = re.sub(r"^(Input|String|List) should", "must", detail["msg"].removeprefix("Value error, "))
    text = re.sub(r"dictionary( or instance of \w+)?", "table", text)
    return text.replace("a valid integer", "an integer").replace("a valid ", "a ")


def _or(requirements: list[str]) -> str:
    """Join requirements: "must be a number", "must be 'scale'" become "must be a number or 'scale'"."""
    first, *others = requirements
    others = [other.removeprefix("must be ") for other in others]
    if not others:
        return first
    return f"{', '.join([first, *others[:-1]])} or {others[-1]}"


def _key_in_file(detail: dict[str, Any], tables: dict[str, Any]) -> tuple[str, ...]:
    """The part of pydantic's location that is in the file; the rest names the types that pydantic tried."""
    key, value, location = [], tables, detail["loc"]
    for part in location:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
        elif detail["type"] != "missing" or part is not location[-1]:
            continue
        key.append(str(part))
    return tuple(key)


def _keys_beside(location: Sequence[str]) -> list[str]:
    model: Any = Config
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        model = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return list(model.model_fields)


# Synonyms of keys: from other packages, earlier versions, and everyday speech.
_SYNONYMS = {
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


# A word counts as a misspelt key from this similarity on (see difflib). Words with fewer letters are not compared with
# the synonyms, since they may well be different words.
_SIMILAR, _LONG = 0.8, 6


def did_you_mean_key(location: Sequence[str], known: Sequence[str]) -> str:
    """A question with the key that was probably meant, or the list of known keys.

    Parameters
    ----------
    location : sequence of str
        The parts of the unknown key, such as ``("graph", "hub")``.
    known : sequence of str
        The keys of its section.
    """
    *above, word = location
    section = ".".join(above)
    if key := similar(word, known) or _by_synonym(word, section) or _in_other_section(word, section):
        return f" Did you mean {key!r}?"
    return f" Known: {', '.join(known)}."


def similar(word: str, known: Iterable[str]) -> str | None:
    """The known word of which ``word`` is probably a misspelling.

    Examples
    --------
    >>> similar("fodls", ["tol", "folds"]), similar("cost", ["coef0"])
    ('folds', None)
    """
    by_text = {other.lower(): other for other in known}
    return next((by_text[text] for text in get_close_matches(word.lower(), by_text, 1, _SIMILAR)), None)


def _by_synonym(word: str, section: str) -> str | None:
    """The key for which a word is a synonym: one of its section, or else the only one."""
    keys = [key for key, words in _SYNONYMS.items() if word.lower() in words]
    if not keys:
        misspelt = similar(
            word, [other for words in _SYNONYMS.values() for other in words if len(other) >= _LONG]
        )
        keys = [key for key, words in _SYNONYMS.items() if misspelt in words]
    here = [key.removeprefix(f"{section}.") for key in keys if key.startswith(f"{section}.")]
    return here[0] if here else keys[0] if len(keys) == 1 else None


def _in_other_section(word: str, section: str) -> str | None:
    """The key of this name in another section, if only one has it."""
    keys = [
        f"{name}.{word}"
        for name, other in sections().items()
        if name != section and "." not in name and any(key.name == word for key in other.keys)
    ]
    return keys[0] if len(keys) == 1 else None
