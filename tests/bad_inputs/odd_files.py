"""Files that a command may be given and cannot use, or should not touch."""

from __future__ import annotations

import io
import zipfile

import numpy as np

y = np.repeat(np.arange(4), 8)
X = np.random.default_rng(1).standard_normal((32, 3)) + y[:, None]
POOL = {"X": X, "y": y}
SPLIT = {"X_train": X, "y_train": y, "X_test": X, "y_test": y}
dates = np.datetime64("2026-01-01") + y


def archive(**arrays) -> bytes:
    """The bytes of a .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def saved(values: np.ndarray) -> bytes:
    """The bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    """The bytes of an archive of anything."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("_npy", ".npy"), content)
    return file.getvalue()


def flipped(content: bytes, place: int) -> bytes:
    """The bytes with one bit changed."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def bomb() -> bytes:
    """The bytes of an archive whose directory claims that a member unpacks to ten gigabytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("X.npy", bytes(10_000))
        made.filelist[0].file_size = 10_000_000_000
    return file.getvalue()


def packed_otherwise() -> bytes:
    """The bytes of an archive that numpy would read, but did not write."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("X.npy", bytes(10_000))
    return file.getvalue()


HUGE_HEADER = (
    b"\x93NUMPY\x01\x00v\x00"
    + repr({"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}).ljust(117).encode()
    + b"\n"
)
FILES = {
    "text.npz": b"hello",
    "empty.npz": b"",
    "cut.npz": archive(**POOL)[:600],
    "flipped.npz": flipped(archive(**POOL), 300),
    "no_members.npz": zipped(),
    "no_arrays.npz": zipped(X_npy=b"hello", y_npy=b""),
    "endless.npz": zipped(X_npy=HUGE_HEADER, y_npy=HUGE_HEADER),
    "bomb.npz": bomb(),
    "lzma.npz": packed_otherwise(),
    "huge_labels/X.npy": saved(X),
    "huge_labels/y.npy": HUGE_HEADER,
    "no_X.npz": archive(y=y),
    "no_y.npz": archive(X=X),
    "X_vector.npz": archive(X=X[:, 0], y=y),
    "X_cube.npz": archive(X=X[None], y=y),
    "X_number.npz": archive(X=3.0, y=y),
    "X_no_columns.npz": archive(X=X[:, :0], y=y),
    "X_no_rows.npz": archive(X=X[:0], y=y[:0]),
    "X_complex.npz": archive(X=X * 1j, y=y),
    "X_text.npz": archive(X=X.astype(str), y=y),
    "X_objects.npz": archive(X=X.astype(object), y=y),
    "X_nan.npz": archive(X=np.where(X > 4, np.nan, X), y=y),
    "X_infinite.npz": archive(X=np.where(X > 4, np.inf, X), y=y),
    "X_too_large.npz": archive(X=np.where(X > 1, 1e308, -1e308), y=y),
    "y_short.npz": archive(X=X, y=y[:-1]),
    "y_long.npz": archive(X=X, y=np.append(y, 0)),
    "y_matrix.npz": archive(X=X, y=np.eye(4)[y]),
    "y_number.npz": archive(X=X, y=3),
    "y_one_class.npz": archive(X=X, y=y * 0),
    "y_objects.npz": archive(X=X, y=y.astype(object)),
    "y_nan.npz": archive(X=X, y=np.where(y, y, np.nan)),
    "y_no_time.npz": archive(X=X, y=np.where(y, dates, np.datetime64("NaT"))),
    "y_bytes.npz": archive(X=X, y=np.array([b"a", b"b", b"\xff", b"d"])[y]),
    "y_beyond.npz": archive(X=X, y=y + 10, classes=list("abcd")),
    "y_few.npz": archive(X=X[::8], y=y[::8]),
    "classes_twice.npz": archive(**POOL, classes=list("abca")),
    "classes_fewer.npz": archive(**POOL, classes=list("abc")),
    "classes_more.npz": archive(**POOL, classes=list("abcde")),
    "classes_none.npz": archive(**POOL, classes=np.array([], str)),
    "classes_one.npz": archive(**POOL, classes="a"),
    "classes_matrix.npz": archive(**POOL, classes=[list("abcd")]),
    "classes_objects.npz": archive(**POOL, classes=np.array(list("abcd"), object)),
    "test_columns.npz": archive(**SPLIT | {"X_test": X[:, :2]}),
    "test_short.npz": archive(**SPLIT | {"y_test": y[:3]}),
    "test_labels.npz": archive(**SPLIT | {"y_test": y + 9}),
    "test_dates.npz": archive(**SPLIT | {"y_test": dates}),
    "test_nan.npz": archive(**SPLIT | {"X_test": X * np.nan}),
    "two_columns.npz": archive(X=X[:, :2]),
    "no_samples.npz": archive(X=X[:0]),
    "far.npz": archive(X=X * 1e300),
    "folder.npz/X.npy": b"hello",
    "folders/X.npy/deeper": b"",
    "group/zarr.json": b"hello",
    "notes.txt": b"theirs",
    "theirs.csv": b"theirs",
    "no_label.csv": b"a,b,kind\n1,2,x\n2,1,y\n",
    "odd.toml": b"[data]\nfeatures = 'data.npz'",
    "a_file": b"theirs",
    "empty.toml": b"",
    "text.toml": b"hello",
    "bytes.toml": b"\xff\xfe",
    "deep.toml": b"a = " + b"[" * 3000,
    "digits.toml": b"[data]\nfeatures = " + b"9" * 5000,
    "no_features.toml": b"[data]",
    "table.toml": b"run = 3\n[data]\nfeatures = 'data.npz'",
    "tables.toml": b"[[data]]\nfeatures = 'data.npz'",
    "number.toml": b"data = 3",
    "section.toml": b"[bogus]\na = 1\n[data]\nfeatures = 'data.npz'",
    "int_section.toml": b"[int]\n[data]\nfeatures = 'data.npz'",
    "int_key.toml": b"float = 1\n[data]\nfeatures = 'data.npz'",
    "str_key.toml": b"[model]\nstr = 1\nint = 2\n[data]\nfeatures = 'data.npz'",
    "int_in_slurm.toml": b"[cluster.slurm]\nint = 1\n[data]\nfeatures = 'data.npz'",
    "int_in_weights.toml": b"[model.class_weight]\nint = 'x'\n[data]\nfeatures = 'data.npz'",
    "list.json": b"[1, 2]",
    "text.json": b"hello",
    "number.json": b'{"address": 3}',
    "evil.json": b'{"address": "tcp://10.255.255.1:1"}',
}
