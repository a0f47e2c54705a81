"""The folder of a saved model, or its place in an object store: its files, and how a new model replaces it.

``model.json`` names the folder of the arrays and lists every file with its digest. A new model is written beside the
old one, then ``model.json`` is replaced, then the old files are removed. So the folder always holds a complete model,
the old or the new, and a killed process leaves at most files that ``model.json`` lists as ``changing``.

In an object store the same holds for a prefix. A model is written to, or read from, a temporary folder; its objects are
put before ``model.json``, and read after it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from pairloom.pipeline.storage.digests import DamagedSeal, file_digest, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder, is_litter
from pairloom.pipeline.storage.location import StoreUrl
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
    "load_from_store",
    "model_to_replace",
    "put_in_place",
    "save_to_store",
]

Old = TypeVar("Old")
Loaded = TypeVar("Loaded")

MODEL_JSON, ARRAYS = "model.json", "arrays.zarr"
_ARRAYS = re.compile(r"arrays(-[0-9]+)?\.zarr", re.ASCII)


class OldModel(NamedTuple):
    """A saved model that is to be replaced.

    Attributes
    ----------
    data : the bytes of its model.json
    content : the content of its model.json
    files : its own files, and files of another model that a killed process left behind
    """

    data: bytes
    content: dict[str, Any]
    files: frozenset[str]


def model_to_replace(path: Path, kind: str, *, overwrite: bool) -> OldModel | None:
    """The saved model at a path; None if nothing is there; an error for anything else, or if it must not be replaced.

    ``kind`` is the format that model.json must name.
    """
    if path.is_symlink():
        raise FileExistsError(f"PairwiseSVC.save: path must not be a symbolic link, got {path}.")
    if not path.exists():
        return None
    return _replaceable(
        path,
        _saved_model(path, kind),
        lambda old: next(_strangers(path, old.files), None),
        overwrite=overwrite,
    )


def _replaceable(
    place: Path | StoreUrl, old: Old | None, stranger_of: Callable[[Old], str | None], *, overwrite: bool
) -> Old:
    """The model at a place, which is not empty, or an error if it must not be replaced.

    Parameters
    ----------
    old
        The saved model; None if there is something else.
    stranger_of
        Returns a file or folder that does not belong to a model, if there is one.
    """
    if not overwrite:
        raise FileExistsError(
            f"PairwiseSVC.save: {place} exists already; overwrite=True replaces a saved model."
        )
    if old is None:
        raise FileExistsError(
            f"PairwiseSVC.save: overwrite=True replaces a saved model and nothing else, got {place}, which is not one."
        )
    if (stranger := stranger_of(old)) is not None:
        raise FileExistsError(
            f"PairwiseSVC.save: overwrite=True replaces a saved model and nothing else, got {place}, which holds"
            f" {stranger!r} too. Move it away, or save to another path."
        )
    return old


def check_target(path: Path, kind: str, *, overwrite: bool) -> None:
    """Raise if no model may be put at a path, see `model_to_replace`. Wait if a process is replacing one there."""
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
    """Paths in the folder of a model that do not belong to it, except the litter of file managers."""
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
    """Everything below a folder, sorted, with its status. Links are not followed."""
    for place, folders, files in os.walk(path):
        folders.sort()
        for name in sorted((*folders, *files)):
            entry = Path(place, name)
            yield entry, entry.lstat()


def put_in_place(unfinished: Path, path: Path, description: Mapping[str, Any], *, overwrite: bool) -> None:
    """Put a model in its place: its arrays are in ``unfinished``, and ``description`` is the rest of its model.json.

    After a failure the old model is unchanged.
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
    """An unused name for the folder of the arrays of a new model."""
    names = (ARRAYS if number == 1 else f"arrays-{number}.zarr" for number in count(1))
    return next(name for name in names if not os.path.lexists(path / name))


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Keep other processes from replacing the same model meanwhile. Windows cannot lock folders."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # nor can some network file systems
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(unfinished: Path, path: Path, new: Mapping[str, Any], old: OldModel) -> None:
    # Files that a killed process listed as changing may have the names of new files, which must stay.
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
    # Files that cannot be removed now stay listed, and the next save removes them.
    with contextlib.suppress(OSError, LinkInside):
        _remove(Folder(path), outdated)
        _put_json(unfinished, path, sealed(dict(new), indent=1))


def _put_json(unfinished: Path, path: Path, data: bytes) -> None:
    """Replace the model.json of a model. It is written outside the folder first: a killed process leaves no litter."""
    with (unfinished / MODEL_JSON).open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    (unfinished / MODEL_JSON).replace(path / MODEL_JSON)


def _flush(folder: Path) -> None:
    """Flush all files below a folder to disk, because the old model is removed as soon as they are in its place."""
    for entry, status in _entries(folder):
        if stat.S_ISREG(status.st_mode):
            with entry.open("rb+") as file:
                os.fsync(file.fileno())


def _remove(folder: Folder, files: Collection[str]) -> None:
    """Remove files of a model, and folders that are then empty. Paths outside the folder are ignored."""
    for name in folder.below("."):
        if name in files:
            folder.delete(name)
    for name in sorted({name.split("/")[0] for name in files if "/" in name}):
        if _ARRAYS.fullmatch(name):
            folder.prune(name)


def arrays_folder(path: Path, content: Mapping[str, Any]) -> Path:
    """The folder of the arrays of a saved model, as its model.json names it."""
    name = content.get("arrays", ARRAYS)
    if not isinstance(name, str) or not _ARRAYS.fullmatch(name):
        raise ValueError(f"PairwiseSVC.load: {path} is not a whole model: its arrays are in {name!r}.")
    return path / name


def _digests_below(path: Path) -> dict[str, str]:
    """The digests of all files below a folder, by relative path."""
    return {
        file.relative_to(path).as_posix(): file_digest(file)
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def check_files(path: Path, written: Mapping[str, str], changing: Collection[str] = ()) -> None:
    """Raise unless the files are those that were written. zarr would read a missing chunk as zeros."""
    # os.walk, unlike Path.rglob, does not fail if another process removes a folder meanwhile.
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
            raise ValueError(
                f"PairwiseSVC.load: {path / name} is damaged: it differs from the file that was saved."
            )


def _digest(file: Path) -> str | None:
    """The digest of a file; None if it no longer exists."""
    with contextlib.suppress(FileNotFoundError):
        return file_digest(file)
    return None


def save_to_store(url: StoreUrl, kind: str, save: Callable[[Path], None], *, overwrite: bool) -> None:
    """Put the model that ``save`` writes to a folder below a URL. ``kind`` is the format that model.json must name."""
    folder = Folder(url)
    folder.make()
    _stored_model_to_replace(folder, kind, overwrite=overwrite)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "model"
        save(made)
        _put_in_store(made, folder, _stored_model_to_replace(folder, kind, overwrite=overwrite))


def _stored_model_to_replace(folder: Folder, kind: str, *, overwrite: bool) -> dict[str, Any] | None:
    """The model.json of the model to be replaced; None if nothing is there; an error for anything else."""
    present = [path for path in folder.below("") if not is_litter(path)]
    if not present:
        return None
    content = _stored_content(folder)
    old = content if content is not None and content.get("format") == kind else None
    return _replaceable(
        folder.root,
        old,
        lambda old: min(set(present) - {MODEL_JSON, *_files_of(old)}, default=None),
        overwrite=overwrite,
    )


def _stored_content(folder: Folder) -> dict[str, Any] | None:
    """The model.json of a model, if it is sound."""
    try:
        content = unsealed(folder.read(MODEL_JSON))
        return content if isinstance(content["files"], dict) else None
    except (FileNotFoundError, DamagedSeal, KeyError):
        return None


def _files_of(content: dict[str, Any]) -> set[str]:
    """The files of a model, and files of another model that a killed process may have left behind."""
    return {*content["files"], *content.get("changing", ())}


def _put_in_store(made: Path, folder: Folder, old: dict[str, Any] | None) -> None:
    """Put the arrays beside those of the old model, then model.json; then remove outdated objects."""
    taken = set() if old is None else {path.split("/")[0] for path in _files_of(old)}
    names = (ARRAYS if number == 1 else f"arrays-{number}.zarr" for number in count(1))
    arrays = next(name for name in names if name not in taken)
    content = unsealed((made / MODEL_JSON).read_bytes())
    sources = {f"{arrays}/{path.removeprefix(f'{ARRAYS}/')}": path for path in content["files"]}
    digests = {path: content["files"][source] for path, source in sources.items()}
    if old is not None:
        announced = {**old, "changing": sorted({*_files_of(old), *sources})}
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
    folder.write(MODEL_JSON, sealed({**new, "changing": sorted(_files_of(old))}))
    for path in set(folder.below("")) & _files_of(old) - set(sources):
        folder.delete(path)
    folder.write(MODEL_JSON, sealed(new, indent=1))


def load_from_store(url: StoreUrl, load: Callable[[Path], Loaded]) -> Loaded:
    """The result of ``load`` for a folder with a copy of the model below a URL. Errors name the URL."""
    with tempfile.TemporaryDirectory() as scratch, _errors_name(Path(scratch), url):
        here = Folder(Path(scratch))
        folder = Folder(url)
        try:
            here.write(MODEL_JSON, folder.read(MODEL_JSON))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"PairwiseSVC.load: {url} is not a saved model: it has no {MODEL_JSON}."
            ) from None
        wanted = set((_stored_content(folder) or {"files": {}})["files"])
        for path in sorted(wanted & set(folder.below(""))):
            if ".." not in PurePosixPath(path).parts:
                here.write(path, folder.read(path))
        return load(Path(scratch))


@contextlib.contextmanager
def _errors_name(scratch: Path, url: StoreUrl) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(str(scratch), str(url))) from error
