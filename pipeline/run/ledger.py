"""The ledger: which units of work of a run are finished.

A chunk on disk proves nothing: the process that wrote it may have been killed, or may have used another
configuration. A unit (a tile, a slab) is finished when it has an entry in the ledger: one small file, written last and
atomically, with the digest of every file of the unit and a key, the digest of its inputs. An entry is valid if its own
checksum is right, its key is the one in the plan, and its files match their digests. Any other unit is computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from pairloom.pipeline.storage.digests import DamagedSeal, sealed, unsealed
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True)
class Entry:
    """One finished unit of work.

    Parameters
    ----------
    stage, unit
        ``("machines", 3)`` is the fourth tile.
    key
        Digest of everything that the result depends on.
    files
        SHA-256 of every file that the unit wrote, by path inside the run directory.
    seconds
        Time of the computation.
    worker
        Host and process that computed it.
    """

    stage: str
    unit: int
    key: str
    files: dict[str, str]
    seconds: float
    worker: str


_DIGITS = 6


class Ledger:
    """The entries of one run directory."""

    def __init__(self, directory: Location) -> None:
        self.folder = Folder(directory)

    def record(self, entry: Entry) -> None:
        """Write an entry; one with another key is replaced.

        If two workers finish a unit at once, a folder keeps the last entry, an object store the first.
        """

        def is_final(data: bytes) -> bool:
            present = _entry(data, entry.stage, entry.unit)
            return present is not None and present.key == entry.key

        self.folder.put_once(_path(entry.stage, entry.unit), sealed(asdict(entry), indent=1), is_final)

    def read(self, stage: str, unit: int) -> Entry | None:
        """The entry of a unit, or None if it is missing or damaged."""
        try:
            return _entry(self.folder.read(_path(stage, unit)), stage, unit)
        except FileNotFoundError:
            return None

    def claimed(self, stage: str, keys: Sequence[str]) -> Iterator[Entry]:
        """Entries of a stage with the right keys. Their files are not checked."""
        contents = self.folder.read_each([_path(stage, unit) for unit in range(len(keys))])
        for (unit, key), data in zip(enumerate(keys), contents, strict=True):
            entry = None if data is None else _entry(data, stage, unit)
            if entry is not None and entry.key == key:
                yield entry

    def verified(self, stage: str, keys: Sequence[str]) -> tuple[list[Entry], list[str]]:
        """Valid entries of a stage, and the damaged or missing files of the others."""
        entries = list(self.claimed(stage, keys))
        damages = {entry.unit: damage for entry, damage in self.damages(entries)}
        sound = [entry for entry in entries if entry.unit not in damages]
        return sound, [path for damage in damages.values() for path in damage]

    def damages(self, entries: Sequence[Entry]) -> list[tuple[Entry, list[str]]]:
        """The invalid entries, each with its damaged or missing files."""
        with ThreadPoolExecutor() as threads:
            damaged = threads.map(self.damaged_files, entries)
            return [(entry, damage) for entry, damage in zip(entries, damaged, strict=True) if damage]

    def damaged_files(self, entry: Entry) -> list[str]:
        """Files of an entry that are missing or differ from their digests."""
        return [path for path, recorded in entry.files.items() if self.folder.digest(path) != recorded]

    def seal_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Digests of the files that a unit has just written, for its entry."""
        digests = {path: self.folder.digest(path) for path in paths}
        missing = [path for path, digest in digests.items() if digest is None]
        if missing:
            raise FileNotFoundError(f"{self.folder.root / missing[0]}: written, but it cannot be read.")
        return {path: digest for path, digest in digests.items() if digest is not None}

    def forget(self, stage: str, unit: int) -> None:
        """Remove an entry; its unit is then computed again."""
        self.folder.retract(_path(stage, unit))

    def beyond(self, stage: str, units: int) -> Iterator[Entry]:
        """Entries of units that a stage no longer has. The content of a file decides, not its name."""
        for name in self.folder.names(f"ledger/{stage}"):
            if name.isdecimal() and len(name) == _DIGITS and int(name) >= units:
                entry = self.read(stage, int(name))
                if entry is not None:
                    yield entry

    def forget_beyond(self, stage: str, units: int) -> None:
        """Remove entries of units that a stage no longer has."""
        for entry in self.beyond(stage, units):
            self.forget(stage, entry.unit)


def _entry(data: bytes, stage: str, unit: int) -> Entry | None:
    """The entry in the content of a file; None if it is damaged or the entry of another unit."""
    try:
        entry = Entry(**unsealed(data))
    except (DamagedSeal, TypeError):
        return None
    moved = (entry.stage, entry.unit) != (stage, unit)
    return None if moved else entry


def _path(stage: str, unit: int) -> str:
    return f"ledger/{stage}/{unit:0{_DIGITS}d}.json"
