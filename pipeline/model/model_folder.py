"""The folder of a saved model: which files are the model's own, and how one model takes the place of another.

``model.json`` names the folder of the arrays and lists every file with its digest. A new model is put beside the old
one, then ``model.json`` is replaced, then the old files are removed: at every moment the folder holds the old model or
the new one whole, and a process that is killed leaves at most files that ``model.json`` lists as ``changing``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pairloom.pipeline.storage.digests import DamagedSeal, file_digest, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder, is_litter
from pairloom.pipeline.storage.places import LinkInside

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "ARRAYS",
    "MODEL_JSON",
    "arrays_folder",
    "check_files",
    "check_target",
    "model_to_replace",
    "put_in_place",
]

MODEL_JSON, ARRAYS = "model.json", "arrays.zarr"
_ARRAYS = re.compile(r"arrays(-[0-9]+)?\.zarr", re.ASCII)


class OldModel(NamedTuple):
    """A saved model that is to be replaced.

    Attributes
    ----------
    data : the bytes of its model.json
    content : what is in there
    files : its own files, and those that a killed process left of another
    """

    data: bytes
    content: dict[str, Any]
    files: frozenset[str]


def model_to_replace(path: Path, kind: str, *, overwrite: bool) -> OldModel | None:
    """The saved model at a path, None if nothing is there, or an error if something else is, or should not be replaced.

    ``kind`` is the format that a saved model has.
    """
    if path.is_symlink():
        raise FileExistsError(f"PairwiseSVC.save: path must not be a symbolic link, got {path}.")
    if not path.exists():
        return None
    if not overwrite:
        raise FileExistsError(
            f"PairwiseSVC.save: {path} exists already; overwrite=True replaces a saved model."
        )
    old = _saved_model(path, kind)
    if old is None:
        raise FileExistsError(
            f"PairwiseSVC.save: overwrite=True replaces a saved model and nothing else, got {path}, which is none."
        )
    if strangers := list(_strangers(path, old.files)):
        raise FileExistsError(
            f"PairwiseSVC.save: overwrite=True replaces a saved model and nothing else, got {path}, which holds"
            f" {strangers[0]!r} too. Move it away, or save to another path."
        )
    return old


def check_target(path: Path, kind: str, *, overwrite: bool) -> None:
    """Raise if nothing should be put at a path, see `model_to_replace`. Another process that replaces is waited for."""
    with _one_at_a_time(path) if path.is_dir() else contextlib.nullcontext():
        model_to_replace(path, kind, overwrite=overwrite)


def _saved_model(path: Path, kind: str) -> OldModel | None:
    """The saved model in a folder, if its model.json is sound."""
    try:
        if (path / MODEL_JSON).is_symlink():
            return None
        data = (path / MODEL_JSON).read_bytes()
        content = unsealed(data)
        files = frozenset((*content["files"], *content.get("changing", ())))
    except (OSError, DamagedSeal, KeyError, TypeError):
        return None
    return OldModel(data, content, files) if content.get("format") == kind else None


def _strangers(path: Path, files: Collection[str]) -> Iterator[str]:
    """What lies in the folder of a model and is not of it, by its path there. A file manager's litter is harmless."""
    folders = {above.as_posix() for name in files for above in Path(name).parents}
    for entry, status in _entries(path):
        name = entry.relative_to(path).as_posix()
        if stat.S_ISDIR(status.st_mode):
            if name not in folders and not any(entry.iterdir()):
                yield name
        elif not stat.S_ISREG(status.st_mode) or not (
            name == MODEL_JSON or name in files or is_litter(entry.name)
        ):
            yield name


def _entries(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder, sorted, with its own status: links are not followed."""
    for place, folders, files in os.walk(path):
        folders.sort()
        for name in sorted((*folders, *files)):
            entry = Path(place, name)
            yield entry, entry.lstat()


def put_in_place(unfinished: Path, path: Path, description: Mapping[str, Any], *, overwrite: bool) -> None:
    """Put a model into its place: its arrays lie in ``unfinished``, and ``description`` is the rest of its model.json.

    A failure leaves an old model as it was.
    """
    digests = _digests_below(unfinished / ARRAYS)
    if not path.exists():
        whole = _with_files(description, ARRAYS, digests)
        (unfinished / MODEL_JSON).write_bytes(sealed(whole, indent=1))
        unfinished.rename(path)
        return
    _flush(unfinished)
    with _one_at_a_time(path):
        old = model_to_replace(path, description["format"], overwrite=overwrite)
        assert old is not None
        _replace(unfinished, path, _with_files(description, _free_name(path), digests), old)


def _with_files(description: Mapping[str, Any], arrays: str, digests: Mapping[str, str]) -> dict[str, Any]:
    files = {f"{arrays}/{name}": digest for name, digest in digests.items()}
    return {**description, "arrays": arrays, "files": files}


def _free_name(path: Path) -> str:
    """A name for the arrays of a new model that nothing at this path has."""
    names = (ARRAYS if number == 1 else f"arrays-{number}.zarr" for number in count(1))
    return next(name for name in names if not os.path.lexists(path / name))


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Keep other processes from replacing the same model meanwhile. Windows has no such locks of folders."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have none either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(unfinished: Path, path: Path, new: Mapping[str, Any], old: OldModel) -> None:
    # A killed process may have announced files of the names that the new ones have.
    arrays, outdated = path / new["arrays"], old.files - set(new["files"])
    try:
        _put_json(unfinished, path, sealed({**old.content, "changing": sorted({*old.files, *new["files"]})}))
        (unfinished / ARRAYS).rename(arrays)
        _put_json(unfinished, path, sealed({**new, "changing": sorted(outdated)}))
    except BaseException:
        shutil.rmtree(arrays, ignore_errors=True)
        with contextlib.suppress(OSError):
            _put_json(unfinished, path, old.data)
        raise
    # What cannot be removed now stays listed, and is removed with the next model.
    with contextlib.suppress(OSError, LinkInside):
        _remove(Folder(path), outdated)
        _put_json(unfinished, path, sealed(dict(new), indent=1))


def _put_json(unfinished: Path, path: Path, data: bytes) -> None:
    """Replace the model.json of a model. It is written outside the folder, where a killed process may leave it."""
    with (unfinished / MODEL_JSON).open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    (unfinished / MODEL_JSON).replace(path / MODEL_JSON)


def _flush(folder: Path) -> None:
    """Flush all files below a folder: an old model is removed as soon as they are in its place."""
    for entry, status in _entries(folder):
        if stat.S_ISREG(status.st_mode):
            with entry.open("rb+") as file:
                os.fsync(file.fileno())


def _remove(folder: Folder, files: Collection[str]) -> None:
    """Remove files of a model, and folders that are empty then. A list may name any path: only those below count."""
    for name in folder.below("."):
        if name in files:
            folder.delete(name)
    for name in sorted({name.split("/")[0] for name in files if "/" in name}):
        if _ARRAYS.fullmatch(name):
            folder.prune(name)


def arrays_folder(path: Path, content: Mapping[str, Any]) -> Path:
    """The folder of the arrays of a saved model, by its model.json."""
    name = content.get("arrays", ARRAYS)
    if not isinstance(name, str) or not _ARRAYS.fullmatch(name):
        raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: its arrays are in {name!r}.")
    return path / name


def _digests_below(path: Path) -> dict[str, str]:
    """The digest of every file below a folder, by its name there."""
    return {
        file.relative_to(path).as_posix(): file_digest(file)
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def check_files(path: Path, written: Mapping[str, str], changing: Collection[str] = ()) -> None:
    """Raise unless the files are those that were written. zarr takes a chunk that is not there for zeros."""
    # os.walk, unlike Path.rglob, goes on where another process removes a folder meanwhile.
    files = (Path(place, name) for place, _, names in os.walk(path) for name in names)
    present = {file.relative_to(path).as_posix(): file for file in files if file.is_file()}
    for name in sorted({*written, *present} - {MODEL_JSON}):
        if name not in present:
            raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: it has no {name}.")
        if name not in written:
            if name in changing or is_litter(present[name].name):
                continue
            raise ValueError(f"PairwiseSVC.load: {path} must hold a saved model only, got also {name}.")
        if _digest(present[name]) != written[name]:
            raise ValueError(f"PairwiseSVC.load: {path / name} is damaged: it is not what was saved.")


def _digest(file: Path) -> str | None:
    """The digest of a file; None if it is gone by now."""
    with contextlib.suppress(FileNotFoundError):
        return file_digest(file)
    return None
