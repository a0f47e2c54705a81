"""Samples in other containers than arrays: dask collections and xarray's DataArray.

Predictions of a dask array or data frame are lazy: one task per block, and no prediction is needed to know their type
and shape. A DataArray keeps its dimensions and coordinates, except the last, the features, which becomes the classes or
is dropped. It may have any other dimensions, such as the rows and columns of a picture, and may hold a dask array. No
module here imports dask or xarray: the methods of the containers suffice.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import format_bytes
from pairloom.pipeline.user_warnings import warn_user

__all__ = ["decisions", "gathered", "keeps_container", "labels", "probabilities"]

Method = TypeVar("Method", bound=Callable[..., Any])


class Answer(NamedTuple):
    """The result of a method per sample: a number for each of ``classes``, or a single value; and its dtype."""

    classes: NDArray[Any] | None
    dtype: np.dtype[Any]


#: Returns the `Answer` of a method, given the estimator and the dtype of the samples.
AnswerOf = Callable[[Any, np.dtype[Any]], Answer]


def keeps_container(answer_of: AnswerOf) -> Callable[[Method], Method]:
    """Decorate a method of an estimator so that its result comes in the container of the samples X."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def of_container(self: Any, X: Any, *positional: Any, **options: Any) -> Any:
            is_data_array = _is_data_array(X)
            if not is_data_array and not _is_dask(X):
                return method(self, X, *positional, **options)
            _check_no_options(method, positional, options)
            if is_data_array:
                return _of_data_array(self, method, X, answer_of(self, X.dtype))
            of = _of_frame if hasattr(X, "columns") else _of_array
            return of(self, method, X, answer_of(self, _type_of(X)))

        return of_container  # type: ignore[return-value]

    return decorate


def _check_no_options(
    method: Callable[..., Any], positional: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise unless all options have their defaults, since others change the shape of results or depend on the row."""
    names = list(inspect.signature(method).parameters)[2:]
    for name, value in {**dict(zip(names, positional, strict=False)), **options}.items():
        if value is not None:
            raise ValueError(
                f"PairwiseSVC.{method.__name__}: {name} must be None for dask collections and DataArrays, got"
                f" {value!r}: give X as an array, or call it on each block."
            )


def probabilities(estimator: Any, dtype: np.dtype[Any]) -> Answer:
    """One number per class, in the precision of the samples."""
    return Answer(estimator.classes_, np.dtype(np.float32 if dtype == np.float32 else np.float64))


def decisions(estimator: Any, dtype: np.dtype[Any]) -> Answer:
    """One number per class; for two classes, a single number."""
    per_class = probabilities(estimator, dtype)
    return per_class if len(estimator.classes_) > 2 else per_class._replace(classes=None)


def labels(estimator: Any, dtype: object) -> Answer:
    """One label."""
    return Answer(None, estimator.classes_.dtype)


def gathered(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Training samples. Dask collections are computed, with a warning if X is one."""
    if _is_dask(X):
        warn_user(
            f"PairwiseSVC.fit gathers X, a dask collection of {_size(X)}, in the memory of this process."
            " pairloom.run(config, data=(X, y)) reads it block by block, and fits it on a cluster.",
            UserWarning,
        )
    X, y, sample_weight = (some.compute() if _is_dask(some) else some for some in (X, y, sample_weight))
    return X, y, sample_weight


def _is_dask(X: Any) -> bool:
    return hasattr(X, "__dask_graph__") and X.__dask_graph__() is not None and not _is_data_array(X)


def _is_data_array(X: Any) -> bool:
    return hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "expand_dims")


def _size(collection: Any) -> str:
    """The shape and the bytes of a collection, if they are known without computing it."""
    shape = getattr(collection, "shape", (None,))
    if not all(isinstance(n, int) for n in shape):
        return f"{collection.npartitions} partitions"
    return f"shape {shape} ({format_bytes(math.prod(shape) * _type_of(collection).itemsize)})"


def _type_of(X: Any) -> np.dtype[Any]:
    """The dtype of an array, or of the array that a data frame converts to."""
    if hasattr(X, "columns"):
        joint: np.dtype[Any] = np.result_type(np.float32, *(np.dtype(dtype) for dtype in X.dtypes))
        return joint
    dtype: np.dtype[Any] = np.dtype(X.dtype)
    return dtype


def _of_array(estimator: Any, method: Callable[..., Any], X: Any, answer: Answer) -> Any:
    """The results for a dask array, block by block."""
    if X.ndim < 2:
        raise ValueError(f"PairwiseSVC: X must have a dimension for the features, got shape {X.shape}.")
    estimator._checked_samples(np.zeros((1, X.shape[-1]), X.dtype))  # an error now, not in a task
    whole, (classes, dtype) = X.rechunk({X.ndim - 1: -1}), answer
    apply = functools.partial(_of_block, estimator, method)
    if classes is None:
        meta = np.empty((0,) * (X.ndim - 1), dtype)
        return whole.map_blocks(apply, dtype=dtype, drop_axis=X.ndim - 1, meta=meta)
    chunks = (*whole.chunks[:-1], (len(classes),))
    return whole.map_blocks(apply, dtype=dtype, chunks=chunks, meta=np.empty((0,) * X.ndim, dtype))


def _of_block(estimator: Any, method: Callable[..., Any], block: Any) -> Any:
    """The results for a block of any number of dimensions, whose last dimension is the features."""
    rows = block if block.ndim == 2 else block.reshape(-1, block.shape[-1])
    if rows.shape[0]:
        answers = method(estimator, rows)
    else:  # scikit-learn refuses no samples, but a block may be empty
        answers = method(estimator, np.zeros((1, rows.shape[1]), rows.dtype))[:0]
    return answers.reshape(*block.shape[:-1], *answers.shape[1:])


def _of_frame(estimator: Any, method: Callable[..., Any], X: Any, answer: Answer) -> Any:
    """The results for a dask data frame, as a frame or a series with its index, partition by partition."""
    estimator._checked_samples(type(X._meta)(np.zeros((1, len(X.columns))), columns=X.columns))
    apply = functools.partial(_of_partition, estimator, method, answer)
    return X.map_partitions(apply, meta=apply(X._meta))


def _of_partition(estimator: Any, method: Callable[..., Any], answer: Answer, part: Any) -> Any:
    classes, dtype = answer
    if classes is None:
        values = method(estimator, part) if len(part) else np.empty(0, dtype)
        return type(part.iloc[:, 0])(values, index=part.index)
    values = method(estimator, part) if len(part) else np.empty((0, len(classes)), dtype)
    return type(part)(values, index=part.index, columns=classes)


def _of_data_array(estimator: Any, method: Callable[..., Any], X: Any, answer: Answer) -> Any:
    """The results for a DataArray, whose last dimension is the features."""
    is_lazy = _is_dask(X.data)
    values = _of_array(estimator, method, X.data, answer) if is_lazy else _of_block(estimator, method, X.data)
    shape = X.isel({X.dims[-1]: 0}, drop=True)
    if answer.classes is not None:
        shape = shape.expand_dims({"class": answer.classes}, axis=-1)
    answers = shape.copy(data=values)
    answers.attrs, answers.name = {}, None
    return answers
