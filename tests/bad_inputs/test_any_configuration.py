"""Any configuration and any data file: `pairloom plan` ends with a documented exit code and never with a traceback."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner
from configuration_sections import SECTIONS
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pairloom.cluster.commands.cli import main

CODES = {0, 1, 2, 3, 4, 130, 143}  # as docs/runs.md has them
#: Words that some key takes, and words that no key should stumble over.
WORDS = [
    "star", "path", "tree", "bipartite", "complete", "hub_neighbours", "grown", "stratified", "normal", "vote", "scale",
    "edges", "none", "auto", "never", "balanced", "confusion", "dprime", "uniform", "rest", "threads", "slurm", "1KiB",
    "coupled", "2GiB", "tcp://127.0.0.1:1", "data.npz", "digits.npz", "int", "", "\n", "[red]",
]  # fmt: skip

names = st.sampled_from(["int", "float", "str", "list", "x", "a b", "", "é", "run", "C"])
numbers = (
    st.sampled_from([0, 1, -1, 2, 3, 4, 0.5, 0.001, float("nan"), float("inf"), -0.0, 1e308, 5e-324, 2**31])
    | st.integers(-(2**80), 2**80)
    | st.floats()
)
plain = st.booleans() | numbers | st.sampled_from(WORDS)
values = plain | st.lists(plain, max_size=4) | st.lists(st.lists(numbers, max_size=4), max_size=4)
tables = st.dictionaries(names | st.sampled_from(["0", "1", "2"]), plain, max_size=3)


def keys_of(section: str) -> st.SearchStrategy[dict]:
    """Some keys of a section, most of them real ones, with any values."""
    real = st.sampled_from(list(SECTIONS[section].model_fields)) if section in SECTIONS else names
    return st.dictionaries(real | names, values | tables, max_size=3)


configurations = st.lists(st.sampled_from(list(SECTIONS)) | names, unique=True, max_size=4).flatmap(
    lambda sections: st.fixed_dictionaries({section: keys_of(section) for section in sections})
)


def toml(value) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml(key)} = {toml(item)}' for key, item in value.items())}}}"
    return repr(value)


def document(configuration: dict[str, dict]) -> str:
    """A configuration in TOML. A section may come twice, or lie in a key: then it is not TOML, and must be refused."""
    lines = []
    for section, content in configuration.items():
        lines.append(f"[{section if '.' in section else toml(section)}]")
        lines += [f"{toml(key)} = {toml(value)}" for key, value in content.items()]
    return "\n".join(lines)


def plan(folder, *arguments):
    """Run `pairloom plan` in a folder and check its end."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        done = CliRunner().invoke(main, ["plan", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in CODES
    assert "Traceback" not in done.output
    assert done.exit_code == 0 or done.stderr.strip()
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data of three classes."""
    folder, y = tmp_path_factory.mktemp("any"), np.repeat(np.arange(3), 4)
    X = np.random.default_rng(0).standard_normal((12, 2)) + y[:, None]
    np.savez(folder / "data.npz", X_train=X, y_train=y, X_test=X, y_test=y)
    (folder / "config.toml").write_text("[data]\nfeatures = 'any.npz'\n[model]\nfolds = 2\n")
    return folder


few = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
many = settings(few, max_examples=150)


@given(configurations)
@few
def test_any_configuration_is_planned_or_refused(folder, configuration):
    plan_configuration(folder, configuration)


@pytest.mark.long
@given(configurations)
@many
def test_so_is_any_of_many_configurations(folder, configuration):
    plan_configuration(folder, configuration)


def plan_configuration(folder, configuration):
    (folder / "any.toml").write_text(document(configuration))
    plan(folder, "any.toml")


one_key = st.sampled_from([name for name in SECTIONS if name not in ("data", "cluster.slurm")]).flatmap(
    lambda section: st.tuples(
        st.just(section), st.sampled_from(list(SECTIONS[section].model_fields)), values | tables
    )
)


@given(one_key)
@few
def test_any_value_of_one_key_is_planned_or_refused(folder, setting):
    plan_one_key(folder, *setting)


@pytest.mark.long
@given(one_key)
@many
def test_so_is_any_of_many_values_of_one_key(folder, setting):
    plan_one_key(folder, *setting)


def plan_one_key(folder, section, key, value):
    # A gap that no machine can reach: it is planned too, after seconds.
    assume(key != "tol" or not isinstance(value, float) or not 0 < value < 1e-6)
    (folder / "one.toml").write_text(
        document({"data": {"features": "data.npz"}, section: {key: value}})
        + ("\n[model]\nfolds = 2" if section != "model" else "")
    )
    plan(folder, "one.toml")


arrays = st.sampled_from(
    [
        np.zeros((6, 2)),
        np.eye(6),
        np.arange(6),
        np.arange(6) % 2,
        np.array(list("aabbcc")),
        np.array([b"a", b"\xff"] * 3),
        np.arange(6) * 1j,
        np.array(3),
        np.array([]),
        np.full((6, 2), np.nan),
        np.arange(6).astype("M8[D]"),
        np.zeros(6, "V3"),
        np.array([1, None] * 3, object),
        np.zeros((6, 2), bool),
        np.zeros((2, 3, 4)),
    ]
)
members = st.sampled_from(["X", "y", "X_train", "y_train", "X_test", "y_test", "classes", "other"])


def archive(contents: dict, kept: int, place: int, flip: int) -> bytes:
    """A .npz file of arrays and of other bytes, cut short and with some bits flipped."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in contents.items():
            part = io.BytesIO()
            if isinstance(content, bytes):
                part.write(content)
            else:
                np.save(part, content, allow_pickle=True)
            made.writestr(f"{name}.npy", part.getvalue())
    data = bytearray(file.getvalue()[: kept or None])
    if data:
        data[place % len(data)] ^= flip
    return bytes(data)


archives = st.builds(
    archive,
    st.dictionaries(members, arrays | st.binary(max_size=40), max_size=5),
    st.just(0) | st.integers(1, 2000),
    st.integers(0, 10_000),
    st.just(0) | st.integers(0, 255),
)


@given(archives | st.binary(max_size=200))
@many
def test_any_file_is_planned_or_refused(folder, content):
    (folder / "any.npz").write_bytes(content)
    plan(folder, "config.toml")
