"""Commands that cannot be done."""

from __future__ import annotations

import subprocess
import sys

import pytest
from folder_snapshot import snapshot

COMMANDS = [
    ("init gone.csv --label kind", 2, "DATA must be a file or folder, or an embedded set .* got 'gone.csv'"),
    (
        "init no_label.csv",
        2,
        "--label must name the column with the classes, got none.*All columns: 'a', 'b', 'kind'",
    ),
    ("init no_label.csv --label sort", 2, "--label must name a column, got 'sort'"),
    (
        "init no_label.csv --label a",
        2,
        "no_label.csv: .*got none: b: .*kind: text, 2 different|a class must have",
    ),
    ("init empty.npz --out new.toml", 2, "data.features: empty.npz is damaged"),
    ("init y_one_class.npz", 2, "y_train must have two classes or more, got 0"),
    ("init X_nan.npz", 2, "X_train must be finite, got NaN or infinity in"),
    ("init data.npz --label y", 2, "--label is for tables .* got it for data.npz"),
    ("init data.npz --out odd.toml", 3, "odd.toml exists. Pass --force to replace it"),
    ("init data.npz --out odd.txt", 2, "--out must end in .toml, got odd.txt"),
    ("init data.npz --out gone/x.toml", 2, "--out must lie in a folder that exists, got gone/x.toml"),
    ("init s3://bucket/x.csv", 2, "s3://bucket/x.csv: only zarr groups are read from an object store"),
    ("config digit", 2, "NAME must be a configuration that ships .* got 'digit'. Did you mean 'digits'?"),
    ("config digits --schema", 2, "--schema takes no NAME"),
    ("ls gone", 2, "'gone' does not exist"),
    ("compare run", 2, "compare needs two run directories or more"),
    ("compare run nothing", 1, "nothing/run.json: no such file"),
    ("run config.toml --set data.label=kind", 2, "data.label, .* must not be set, since they are for tables"),
    (
        "plan config.toml --set data.features=no_label.csv",
        2,
        "data.label must name the column with the classes",
    ),
    ("bogus", 2, "No such command 'bogus'"),
    ("run", 2, "Missing argument 'CONFIG'"),
    ("run config.toml --bogus", 2, "No such option:? '?--bogus"),
    ("run config.toml --workers 0", 2, "Invalid value for '--workers': 0"),
    ("run config.toml --directory a_file", 3, "--directory must be a folder, got a_file, which is a file"),
    ("run config.toml --directory a_file/x", 3, "--directory must be .* a_file/x, where a_file is a file"),
    ("run config.toml --directory .", 2, "data.features must not lie in the run directory ., got data.npz"),
    (
        "run config.toml --directory group",
        3,
        "--directory must be new, .* got group, which holds 'zarr.json'",
    ),
    ("run config.toml --directory /proc/nowhere", 1, "/proc/nowhere"),
    ("run config.toml --directory new --scheduler x", 2, "cluster.scheduler must be an address .* got 'x'"),
    (
        "run config.toml --directory new --scheduler tls://127.0.0.1:1",
        2,
        "tls://127.0.0.1:1 uses TLS. Pass --tls",
    ),
    (
        "run config.toml --directory new --scheduler tcp://127.0.0.1/@evil.invalid:8786",
        3,
        "tcp://127.0.0.1/@evil.invalid:8786 is not on loopback",
    ),
    (
        "run config.toml --directory new --scheduler tcp://10.255.255.1:1",
        3,
        "tcp://10.255.255.1:1 is not on loop",
    ),
    (
        "run config.toml --directory new --scheduler-file list.json",
        4,
        "--scheduler-file must be .* got list.json",
    ),
    (
        "run config.toml --directory new --scheduler-file text.json",
        4,
        "--scheduler-file must be .* got text.json",
    ),
    (
        "run config.toml --directory new --scheduler-file nothing",
        4,
        "--scheduler-file must be .* got nothing",
    ),
    (
        "run config.toml --directory new --scheduler-file gone.json",
        4,
        "--scheduler-file must be .* got gone.json",
    ),
    ("run config.toml --directory new --scheduler-file number.json", 3, "scheduler 3 is not on loopback"),
    (
        "run config.toml --directory new --scheduler-file evil.json",
        3,
        "tcp://10.255.255.1:1 is not on loopback",
    ),
    (
        "run config.toml --directory new --tls-ca-file x",
        2,
        "tls_ca_file, tls_cert and tls_key must be set together",
    ),
    ("run config.toml --local --scheduler tcp://127.0.0.1:1", 2, "cluster.kind must be .* got 'processes'"),
    ("submit config.toml", 2, "submit needs a running cluster: pass --scheduler ADDRESS"),
    ("submit config.toml --scheduler tls://127.0.0.1:1", 2, "tls://127.0.0.1:1 uses TLS"),
    ("submit config.toml --scheduler-file list.json", 4, "--scheduler-file must be .* got list.json"),
    ("submit missing.toml --scheduler tcp://127.0.0.1:1", 2, "CONFIG must be .* got missing.toml"),
    *(
        (f"{command} {directory}", code, message)
        for command in ("status", "attach", "cancel", "report", "resume")
        for directory, code, message in (
            ("gone", 2, "'gone' does not exist"),
            ("a_file", 2, "'a_file' is a file"),
            ("nothing", 1, "nothing/run.json: no such file. This is not a run directory"),
        )
    ),
    ("resume run --set nonsense", 2, "--set must be SECTION.KEY=VALUE, got 'nonsense'"),
    ("resume run --set cluster.kind=x", 2, "cluster.kind must be .* got 'x'"),
    ("resume run --set data.features=gone.npz", 2, "data.features: no such file or folder: gone.npz"),
    ("predict gone --features data.npz --out p.csv", 2, "'gone' does not exist"),
    ("predict a_file --features data.npz --out p.csv", 2, "'a_file' is a file"),
    ("predict nothing --features data.npz --out p.csv", 1, "nothing is not a run directory"),
    ("predict run --features data.npz", 2, "Missing option '--out'"),
    ("predict run --out p.csv", 2, "Missing option '--features'"),
    ("predict run --features gone.npz --out p.csv", 2, "--features: no such file or folder: gone.npz"),
    ("predict run --features notes.txt --out p.csv", 2, "--features must be a .npz file, .* got notes.txt"),
    ("predict run --features text.npz --out p.csv", 2, "--features: text.npz is damaged"),
    ("predict run --features no_X.npz --out p.csv", 2, r"no_X.npz: must contain X \(or X_test\), got y"),
    (
        "predict run --features two_columns.npz --out p.csv",
        2,
        "X must have 3 features, as the model has, got 2",
    ),
    ("predict run --features no_samples.npz --out p.csv", 2, r"X must have at least one sample, .* \(0, 3\)"),
    ("predict run --features X_vector.npz --out p.csv", 2, r"X must be a matrix .* got shape \(32,\)"),
    ("predict run --features X_text.npz --out p.csv", 2, "X must be real numbers, got dtype <U"),
    ("predict run --features X_complex.npz --out p.csv", 2, "X must be real numbers, got dtype complex128"),
    (
        "predict run --features X_nan.npz --out p.csv --bad-rows refuse",
        2,
        "1 of 32 rows cannot be predicted.*column 1 must be finite, got nan.*Nothing was predicted",
    ),
    ("predict run --features X_objects.npz --out p.csv", 2, "X cannot be read without unpickling"),
    ("predict run --features far.npz --out p.csv", 2, "X must have features of the size of the fit's"),
    (
        "predict run --features data.npz --out p.txt",
        2,
        "--out must end in one of .csv, .parquet, .npz, .zarr, or be - for CSV text, got p.txt",
    ),
    ("predict run --features data.npz --out theirs.csv", 3, "--out must be new, got theirs.csv"),
    (
        "predict run --features data.npz --out gone/p.csv",
        2,
        "--out must lie in a folder that exists, got gone/p",
    ),
    (
        "predict run --features data.npz --out a_file/p.csv",
        2,
        "--out must lie in a folder that exists, got a_file",
    ),
    (
        "predict run --features data.npz --out p.csv --coupling x",
        2,
        "coupling must be one of auto, .* got 'x'",
    ),
]


@pytest.mark.parametrize(("command", "code", "message"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_command_that_cannot_be_done_is_refused(command, code, message, assert_refused):
    assert_refused(command, code, message)


def test_other_settings_are_refused_and_only_the_driver_is_recorded(pairloom, here):
    before = snapshot(here)
    done = pairloom("resume run --set model.folds=3")
    assert done.exit_code == 3
    assert "model.folds: was 2, is 3" in done.stderr
    after = snapshot(here)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path.relative_to(here).parts[:2] for path in changed} <= {("run", "drivers"), ("run", "log.txt")}


@pytest.mark.long
def test_a_process_ends_as_the_command_does(here):
    done = subprocess.run(
        [sys.executable, "-m", "pairloom", "plan", "config.toml", "--set", "data.features=y_short.npz"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    # Other packages may have warned before.
    assert done.stderr.splitlines()[-1].startswith(
        "Error: y_short.npz: y must be one label for each of 32 samples"
    )
    assert "Traceback" not in done.stderr
