import json
from dataclasses import dataclass

import numpy as np
import pytest

from pairloom.benchmarks.record import Column, Ratio, Record, quantity


@dataclass(frozen=True)
class Row:
    name: str
    seconds: float


def test_the_common_form_has_the_machine_the_versions_and_all_digits(tmp_path, capsys):
    record = Record("some", "pairloom bench some", {"small": True})
    record.begin(
        "table", (Column("name", lambda row: row.name, 6, left=True), Column("s", lambda row: "x", 4))
    )
    record.add(Row("first", 1 / 3))
    record.add(Row("second", float("nan")))
    record.write(tmp_path / "some.json")
    found = json.loads((tmp_path / "some.json").read_text())
    assert list(found) == [
        "benchmark", "command", "started", "seconds", "machine", "versions", "settings", "notes", "rows",
    ]  # fmt: skip
    assert found["rows"] == [
        {"table": "table", "name": "first", "seconds": 1 / 3},
        {"table": "table", "name": "second", "seconds": None},
    ]
    assert {"processor", "cores", "memory_bytes", "system"} <= set(found["machine"])
    packages = {"python", "pairloom", "numpy", "scipy", "scikit-learn", "numba", "dask", "zarr"}
    assert packages <= set(found["versions"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "$ pairloom bench some"
    assert all(f"{name} {found['versions'][name]}" in printed[2] for name in packages)
    assert printed[-3:] == ["name       s", "first      x", "second     x"]


def test_scalars_of_numpy_are_written_as_numbers(tmp_path):
    record = Record("some", "", {"path": tmp_path})
    record.begin("table", ())
    record.add(Row("one", np.float32(0.5)))
    record.write(tmp_path / "some.json")
    assert json.loads((tmp_path / "some.json").read_text())["rows"][0]["seconds"] == 0.5


@pytest.mark.parametrize(("relation", "met"), [(">=", [False, True, True]), ("<=", [True, True, False])])
def test_a_target_is_a_bound_on_its_right_side(relation, met):
    assert [Ratio("", 1, 1, "s", figure, relation, 4).met for figure in (3.9, 4, 4.1)] == met


def test_short_times_are_printed_in_milliseconds():
    assert [quantity(0.0125, "s"), quantity(12.5, "s"), quantity(0.0125, "GB"), quantity(3, "")] == [
        "12.5 ms",
        "12.5 s",
        "0.0125 GB",
        "3",
    ]
