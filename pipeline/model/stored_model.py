"""Saved models in an object store: made or read in a temporary folder, with ``model.json`` put last and read first.

The guarantees are those of a folder (`model_folder`): the prefix always holds a complete model, the old or the new, and
only objects of a saved model are replaced or removed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pairloom.pipeline.model.model_folder import ARRAYS, MODEL_JSON, replaceable
from pairloom.pipeline.storage.digests import DamagedSeal, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder, is_litter
from pairloom.pipeline.storage.location import StoreUrl

__all__ = ["load_from_store", "save_to_store"]

Loaded = TypeVar("Loaded")


def save_to_store(url: StoreUrl, kind: str, save: Callable[[Path], None], *, overwrite: bool) -> None:
    """Put the model that ``save`` writes to a folder below a URL. ``kind`` is the format that model.json must name."""
    folder = Folder(url)
    folder.make()
    _model_to_replace(folder, kind, overwrite=overwrite)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "model"
        save(made)
        _put(made, folder, _model_to_replace(folder, kind, overwrite=overwrite))


def _model_to_replace(folder: Folder, kind: str, *, overwrite: bool) -> dict[str, Any] | None:
    """The model.json of the model to be replaced; None if nothing is there; an error for anything else."""
    present = [path for path in folder.below("") if not is_litter(path)]
    if not present:
        return None
    content = _content(folder)
    old = content if content is not None and content.get("format") == kind else None
    return replaceable(
        folder.root,
        old,
        lambda old: min(set(present) - {MODEL_JSON, *_files(old)}, default=None),
        overwrite=overwrite,
    )


def _content(folder: Folder) -> dict[str, Any] | None:
    """The model.json of a model, if it is sound."""
    try:
        content = unsealed(folder.read(MODEL_JSON))
        return content if isinstance(content["files"], dict) else None
    except (FileNotFoundError, DamagedSeal, KeyError):
        return None


def _files(content: dict[str, Any]) -> set[str]:
    """The files of a model, and files of another model that a killed process may have left behind."""
    return {*content["files"], *content.get("changing", ())}


def _put(made: Path, folder: Folder, old: dict[str, Any] | None) -> None:
    """Put the arrays beside those of the old model, then model.json; then remove outdated objects."""
    taken = set() if old is None else {path.split("/")[0] for path in _files(old)}
    names = (ARRAYS if number == 1 else f"arrays-{number}.zarr" for number in count(1))
    arrays = next(name for name in names if name not in taken)
    content = unsealed((made / MODEL_JSON).read_bytes())
    sources = {f"{arrays}/{path.removeprefix(f'{ARRAYS}/')}": path for path in content["files"]}
    digests = {path: content["files"][source] for path, source in sources.items()}
    if old is not None:
        announced = {**old, "changing": sorted({*_files(old), *sources})}
        folder.write(MODEL_JSON, sealed(announced))
    for path, source in sources.items():
        folder.write(path, (made / source).read_bytes())
    new = {**content, "arrays": arrays, "files": digests}
    if old is None:
        if not folder.create(MODEL_JSON, sealed(new, indent=1)):
            raise FileExistsError(
                f"PairwiseSVC.save: {folder.root}: another process has saved a model there."
            )
        return
    folder.write(MODEL_JSON, sealed({**new, "changing": sorted(_files(old))}))
    for path in set(folder.below("")) & _files(old) - set(sources):
        folder.delete(path)
    folder.write(MODEL_JSON, sealed(new, indent=1))


def load_from_store(url: StoreUrl, load: Callable[[Path], Loaded]) -> Loaded:
    """The result of ``load`` for a folder with a copy of the model below a URL. Errors name the URL."""
    with tempfile.TemporaryDirectory() as scratch, _naming(Path(scratch), url):
        here = Folder(Path(scratch))
        folder = Folder(url)
        try:
            here.write(MODEL_JSON, folder.read(MODEL_JSON))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"PairwiseSVC.load: {url} is not a saved model: it has no {MODEL_JSON}."
            ) from None
        wanted = set((_content(folder) or {"files": {}})["files"])
        for path in sorted(wanted & set(folder.below(""))):
            if ".." not in PurePosixPath(path).parts:
                here.write(path, folder.read(path))
        return load(Path(scratch))


@contextmanager
def _naming(scratch: Path, url: StoreUrl) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(str(scratch), str(url))) from error
