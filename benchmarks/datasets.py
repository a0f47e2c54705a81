"""Data for benchmarks and tests: real sets, which are not in the package and may be missing, and synthetic ones.

A set is a file in the data folder, except scikit-learn's digits and the sets of `synthetic_classes`. `pairloom data`
makes the sets of `made_sets.MADE`, and says where to get those of `ORIGINALS`.
"""

import hashlib
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

#: Sets of features that come with a split, by their short names.
FEATURES = {
    "clinc150": "clinc150-minilm",
    "icd10cm": "icd10cm-minilm",
    "tinyimagenet50": "tinyimagenet50-efficientnet",
    "imagenette": "imagenette-efficientnet",
    "glyphs": "glyphs",
    "icd10cm-ngrams": "icd10cm-ngrams",
}
#: Sets that are one pool of rows. Half of the rows, at most MOST_TRAINING, are drawn for training.
TABLES = ("usps", "letter", "satimage", "segment", "mnist", "dna", "waveform")
MOST_TRAINING = 5000
SETS = (*FEATURES, *TABLES, "digits")
#: Sets that single benchmarks need, by the names of their files.
OTHERS = {
    "clinc150-oos": "clinc150-oos-minilm.npy",
    "onet-titles": "onet-titles.tsv",
    "onet-svd256": "onet-svd256.npz",
    "kanji": "kanji.npz",
}


class Original(NamedTuple):
    """A set that we may not ship: a description, where to get it, and the digest of the values that we measured.

    ``form`` describes its file: the arrays, unless it is a table or features with a split.
    """

    about: str
    where: str
    digest: str
    form: str = ""


_UCI = "https://archive.ics.uci.edu/dataset/{}, all rows in the order of the files"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html ({})"
_MINILM = "embed the texts with sentence-transformers/all-MiniLM-L6-v2"
_EFFICIENTNET = "`pairloom features` with EfficientNet-Lite0 as an ONNX file, at {} pixels"
ORIGINALS = {
    "clinc150": Original(
        "150 intents of CLINC150, sentence embeddings of 384 features",
        f"https://github.com/clinc/oos-eval, data_full.json: train and test; {_MINILM}",
        "b08d7279bb583388752508f2f8a45b5a8969bd7703d6a84bd5617505ba35d037",
    ),
    "icd10cm": Original(
        "1654 categories of ICD-10-CM, sentence embeddings of 384 features",
        f"the descriptions come with the package simple-icd-10-cm; {_MINILM}. Or see icd10cm-ngrams",
        "ad35b41c3f1ff59c9eb6b4f42686bb4477ee031143adfc5b289a5aac3fdcdda6",
    ),
    "tinyimagenet50": Original(
        "50 classes of Tiny-ImageNet, 1280 features of EfficientNet-Lite0",
        f"http://cs231n.stanford.edu/tiny-imagenet-200.zip; {_EFFICIENTNET.format(160)}",
        "c4372a59e953439fa9e97245f6155ebcc1fcb6c0929b034959b03dabc220948c",
    ),
    "imagenette": Original(
        "10 classes of Imagenette, 1280 features of EfficientNet-Lite0",
        f"https://github.com/fastai/imagenette; {_EFFICIENTNET.format(160)}",
        "5faf5a1f6e1941443530c4abfea4be54dac18259a0367dc5a9b23eaa780a0951",
    ),
    "letter": Original(
        "26 letters, 16 columns",
        _UCI.format(59),
        "2cb171821ebb07967c0a1f94225cfc1f35dcdcd73e9fd94d3a744cb9d716dc39",
    ),
    "satimage": Original(
        "6 kinds of land, 36 columns",
        _UCI.format(146),
        "dd79072f2c5c9fa73a3294670314668d537500558e36842d939341fc73d645a1",
    ),
    "segment": Original(
        "7 kinds of surface, 19 columns",
        _UCI.format(147),
        "63466621c8133f5abb5329ec7efa9ada95f5027c7b28a3ec5e5eea864362e008",
    ),
    "dna": Original(
        "3 kinds of splice junctions, 180 columns",
        _LIBSVM.format("dna.scale, dna.scale.t"),
        "0de4c34845eb8cf676bbcaf1c37137fbb0281df62d360eacaf90590e2bf592f7",
    ),
    "usps": Original(
        "10 digits, 256 columns",
        _LIBSVM.format("usps, usps.t; scaled to [0, 1]"),
        "0f4450ab9788641af1e2ffc9b97b67c1e32aa3afb401e6eb43c9c91d67c2bce1",
    ),
    "mnist": Original(
        "10 digits, 784 columns, 10,000 rows",
        _LIBSVM.format("mnist.t"),
        "c64aa9b6c1a119b77b6203d4542a1dcc14b881a6abe96571f7f256da94647971",
    ),
    "clinc150-oos": Original(
        "1000 sentences of CLINC150 of no intent, sentence embeddings of 384 features",
        f"https://github.com/clinc/oos-eval, data_full.json: oos_test; {_MINILM}",
        "48be502b69ac29d62a28b2a29cc88332dac72482e50845fbec52e1883c4dce19",
        "numpy.save, one row per sentence",
    ),
    "onet-titles": Original(
        "job titles of O*NET and the codes of their occupations, 54,000 lines",
        "https://www.onetcenter.org/database.html, Alternate Titles",
        "ea9136bd911fd5c0411edd36e97c39ca43056ed73476efaf4d8a71424ba2f03f",
        "two columns, code and title, separated by tabs, with a header",
    ),
    "onet-svd256": Original(
        "1001 occupations of O*NET, 256 singular vectors of character n-grams of job titles",
        "the titles are those of onet-titles; TfidfVectorizer on character n-grams, TruncatedSVD(256), unit rows",
        "55d713cfe4323d8d1464c708f03d8fc6cd491b0502cc1168c90b715ec960dbab",
    ),
    "kanji": Original(
        "6355 kanji of JIS X 0208, 512 features of the directions of their edges",
        "draw each character by some forty Japanese fonts, distorted; a fifth of the faces of a character is for tests",
        "",
    ),
}


class DataNotFound(Exception):
    """A data file is missing. The message says where it was expected, and how to get it."""


class Split(NamedTuple):
    """Training and test samples, dense or CSR, with their labels, in the order of `train_test_split`."""

    X: Any
    X_new: Any
    y: NDArray[Any]
    y_new: NDArray[Any]


def data_folder() -> Path:
    """The folder PAIRLOOM_DATA; without one, ../shared/data beside the checkout, or ./pairloom-data."""
    if folder := os.environ.get("PAIRLOOM_DATA"):
        return Path(folder)
    shared = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    return shared if shared.is_dir() else Path("pairloom-data")


def file_of(name: str) -> str:
    """The file of a set in the data folder."""
    return OTHERS.get(name) or f"{FEATURES.get(name, name)}.npz"


def path_of(file: str) -> Path:
    """A file in the data folder."""
    path = data_folder() / file
    if not path.is_file():
        name = next((name for name in (*SETS, *OTHERS) if file_of(name) == file), Path(file).stem)
        raise DataNotFound(f"{path} is not there: `pairloom data {name}` makes it or says where to get it.")
    return path


def values_digest(path: Path) -> str:
    """SHA-256 of the values of a set, with features as float32 and classes as int64, whatever their types."""
    if path.suffix == ".tsv":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if path.suffix == ".npy":
        return hashlib.sha256(np.asarray(np.load(path), "<f4").tobytes()).hexdigest()
    digest = hashlib.sha256()
    with np.load(path) as data:
        for key in sorted(data.keys() - {"classes"}):
            digest.update(np.asarray(data[key], "<f4" if key.startswith("X") else "<i8").tobytes())
    return digest.hexdigest()


def split_of(name: str) -> Split:
    """A set of features that comes with a split, or scikit-learn's digits."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return Split(*train_test_split(X.astype(np.float32), y, test_size=0.4, random_state=0, stratify=y))
    with np.load(path_of(f"{name}.npz")) as data:
        X, X_new, y, y_new = (data[key] for key in ("X_train", "X_test", "y_train", "y_test"))
    return Split(X.astype(np.float32), X_new.astype(np.float32), y, y_new)


def training_rows(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Training rows as float32, and their classes as numbers."""
    with np.load(path_of(f"{name}.npz")) as data:
        return data["X_train"].astype(np.float32), data["y_train"]


def load(name: str) -> Split:
    """A set by its short name, with its classes numbered from 0."""
    table = name in TABLES
    split = load_table(name) if table else split_of(FEATURES.get(name, name))
    classes, y = np.unique(split.y, return_inverse=True)
    return split._replace(y=y, y_new=np.searchsorted(classes, split.y_new))


def load_table(name: str, seed: int = 0) -> Split:
    """Draw the training part of a table, and scale all columns to [-1, 1] by it."""
    with np.load(path_of(f"{name}.npz")) as data:
        X, y = data["X"].astype(np.float32), data["y"]
    n = min(len(y) // 2, MOST_TRAINING)
    return scaled_split(X, y, n, seed)


def scaled_split(X: NDArray[np.floating], y: NDArray[Any], n: int, seed: int) -> Split:
    """Draw n rows for training, and scale all columns to [-1, 1] by them."""
    X, X_new, y, y_new = train_test_split(X, y, train_size=n, random_state=seed, stratify=y)
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1)
    return Split(2 * (X - low) / span - 1, 2 * (X_new - low) / span - 1, y, y_new)


def write_split(split: Split, path: Path) -> None:
    """Write a set as the features of a run."""
    np.savez(path, X_train=split.X, y_train=split.y, X_test=split.X_new, y_test=split.y_new)


def synthetic_classes(classes: int, rows: int = 40, features: int = 384, tests: int = 2000) -> Split:
    """Classes of any number and size, about equally hard to separate whatever their number. They are deterministic.

    Class means are standard normal in a subspace of 64 dimensions (or a sixth of all, if that is less), which an
    orthonormal basis embeds in all dimensions; the noise is normal in all of them. With 40 rows of 384 features per
    class, its standard deviation, 1.95 - 0.20 log10(N), makes the nearest mean right for 0.91 to 0.93 of the test
    rows, for N from 100 to 5000.
    """
    rng = np.random.default_rng(0)
    subspace = max(2, min(64, features // 6))
    basis = np.linalg.qr(rng.standard_normal((features, subspace)))[0].T.astype(np.float32)
    # Scale the means by the size of the subspace, so that classes are equally far apart in any of them.
    means = np.float32(math.sqrt(64 / subspace)) * (
        rng.standard_normal((classes, subspace), np.float32) @ basis
    )
    noise = np.float32(1.95 - 0.20 * math.log10(classes))

    def drawn(y: NDArray[np.int64]) -> NDArray[np.float32]:
        return means[y] + noise * rng.standard_normal((len(y), features), np.float32)

    y, y_new = np.repeat(np.arange(classes), rows), np.arange(tests) % classes
    return Split(drawn(y), drawn(y_new), y, y_new)
