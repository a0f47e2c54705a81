"""Zarr arrays that somebody made to run code, or to fill the memory, when they are read."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

from pairloom.pipeline.storage.digests import file_digest, sealed, unsealed


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def make_pickled_array(folder: Path, mark: Path, items: int = 4) -> None:
    """An array of format 2 whose only chunk is a pickle that makes the file ``mark``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    metadata = {
        "zarr_format": 2,
        "shape": [items],
        "chunks": [items],
        "dtype": "|O",
        "fill_value": "",
        "order": "C",
        "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}],
        "compressor": None,
    }
    (folder / ".zarray").write_text(json.dumps(metadata))
    (folder / "0").write_bytes(pickle.dumps(Touch(mark)))


def reseal(model: Path) -> None:
    """Make the description of a saved model agree with its files again, as whoever changes them can."""
    content = unsealed((model / "model.json").read_bytes())
    files = [file for file in sorted(model.rglob("*")) if file.is_file() and file.name != "model.json"]
    content["files"] = {file.relative_to(model).as_posix(): file_digest(file) for file in files}
    (model / "model.json").write_bytes(sealed(content))


def reseal_run(directory: Path) -> None:
    """The same for the model of a run."""
    content = unsealed((directory / "model.json").read_bytes())
    content["files"] = {
        path: file_digest(directory / path) for path in content["files"] if (directory / path).is_file()
    }
    (directory / "model.json").write_bytes(sealed(content))


def change_json(path: Path, **changes) -> None:
    """Write a JSON file again with other entries."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
