"""Changes that a stranger, or chance, can make to a file: a value of its JSON replaced, or some of its bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

#: Values that metadata are known to stumble over, beside any others.
ODD_VALUES = [
    None, True, 0, -1, 1, 2, 3, 2**31, 2**63, 10**12, 10**400, 0.5, "", "a", "|O", "object", "string", "float64",
    "<U500000000", "pickle", "numcodecs.pickle", "/dev/zero", "../..", [], [[]], {}, [0], [-1], [10**9, 10**9],
    [1] * 40, {"id": "pickle"}, {"name": "numcodecs.pickle"}, [{"name": "bytes"}, {"name": "vlen-bytes"}],
    {"name": "regular", "configuration": None},
]  # fmt: skip
values = st.sampled_from(ODD_VALUES) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


class Mutation(NamedTuple):
    """A change of one file.

    Attributes
    ----------
    file : its name, or its place among the files of the folder, modulo their number
    steps : which entry to go to in each object or list of its JSON, by name or by its place; all else is bytes
    value : the new value of that entry, or the byte to be put there
    """

    file: int | str
    steps: tuple[int | str, ...]
    value: Any

    def apply(self, folder: Path) -> Path:
        """Change the file; return its path."""
        path = folder / self.file if isinstance(self.file, str) else _file_at(folder, self.file)
        if path.suffix == ".json" or path.name in (".zarray", ".zgroup"):
            content = json.loads(path.read_bytes())
            path.write_text(json.dumps(_replaced(content, self.steps, self.value)))
        else:
            path.write_bytes(_overwritten(path.read_bytes(), self.steps, self.value))
        return path


def mutations(*names: str) -> st.SearchStrategy[Mutation]:
    """Mutations of any file; every second one of a file of these names, if there are any."""
    files = st.integers(0, 200) | st.sampled_from(names) if names else st.integers(0, 200)
    return st.builds(Mutation, files, st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple), values)


def _file_at(folder: Path, place: int) -> Path:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return files[place % len(files)]


def _replaced(content: Any, steps: tuple[int | str, ...], value: Any) -> Any:
    """The content with one entry replaced; past its leaves, the leaf."""
    if not steps or not isinstance(content, (dict, list)) or not content:
        return value
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key = keys[steps[0] % len(keys)] if isinstance(steps[0], int) else steps[0]
    changed = content.copy()
    old = content.get(key) if isinstance(content, dict) else content[key]
    changed[key] = _replaced(old, steps[1:], value)
    return changed


def _overwritten(data: bytes, steps: tuple[Any, ...], value: Any) -> bytes:
    """The bytes with one changed; cut short there if the value is no number."""
    place = (steps[0] * 41 + sum(steps[1:])) % max(1, len(data))
    if not isinstance(value, int) or isinstance(value, bool):
        return data[:place]
    return data[:place] + bytes([value % 256]) + data[place + 1 :]
