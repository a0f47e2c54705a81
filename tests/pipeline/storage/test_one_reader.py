"""What a run stores has one reader, in pipeline/run: nobody else opens arrays of a run to read them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
READERS = {"pipeline/run", "pipeline/storage"}
ORIGINALS = sorted(
    path
    for room in ("graphs", "pipeline", "cluster", "benchmarks")
    for path in (ROOT / room).rglob("*.py")
    if path.parent.relative_to(ROOT).as_posix() not in READERS
)


def reading_of(source):
    """The lines of a module that open arrays of a run to read them, or read chunks."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        writes = any(k.arg == "write" and getattr(k.value, "value", False) for k in node.keywords)
        if name in ("read_whole", "StoredGroup") or (
            name == "open_group" and len(node.args) > 1 and not writes
        ):
            yield node.lineno


def test_arrays_of_runs_are_opened_for_reading_in_one_place():
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in ORIGINALS for line in reading_of(path.read_text())
    ]
    assert len(ORIGINALS) > 200
    assert found == []


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ('read_whole(open_group(run.directory, "machines.zarr")["weights"])', 2),
        ('group = run_directory.open_group(directory, "machines.zarr")', 1),
        ('group = open_group(directory, "machines.zarr", write=False)', 1),
        ('group = open_group(directory, "machines.zarr", write=True)', 0),
        ('group = zarr.open_group(path, mode="r")', 0),
    ],
)
def test_each_way_of_reading_is_found(line, reads):
    assert len(list(reading_of(line))) == reads
