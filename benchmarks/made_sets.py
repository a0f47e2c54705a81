"""Sets that anyone can make: from a formula, from the fonts of matplotlib, or from a Python package.

They have the form of the other data files, so that benchmarks and runs read them in the same way.
"""

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

Arrays = dict[str, NDArray[Any]]


class PackageMissing(Exception):
    """A package that is needed to make a set is not installed. The message says how to install it."""


class MadeSet(NamedTuple):
    """The function that makes a set, its description, and the package that it needs beyond our own dependencies."""

    make: Callable[[], Arrays]
    about: str
    package: str = ""


def waveform(rows: int = 5000) -> Arrays:
    """Mixtures of two of three triangular waves, with noise [Breiman et al., CART, 1984, 2.6.2].

    No classifier is right for more than 0.86 of the rows.
    """
    rng = np.random.default_rng(0)
    triangles = np.maximum(0, 6 - abs(np.arange(1, 22) - np.array([[11], [15], [7]])))
    y = rng.integers(3, size=rows)
    first, second = np.array([[0, 1], [0, 2], [1, 2]])[y].T
    share = rng.random((rows, 1))
    X = share * triangles[first] + (1 - share) * triangles[second] + rng.standard_normal((rows, 21))
    return {"X": X.astype(np.float32), "y": y}


#: The faces that draw letters: every style of the text families that come with matplotlib.
FACES = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)
#: Side of a drawing in pixels, and of the grid of cells in which the directions of its edges are counted.
SIDE, CELLS, DIRECTIONS = 48, 6, 8
#: Drawings of a letter per face, each distorted differently; and number of faces per letter that are only for tests.
COPIES, TEST_FACES = 2, 4


def glyphs(most: int | None = None) -> Arrays:
    """Letters of the Latin, Greek and Cyrillic alphabets: one class per letter, one row per distorted drawing.

    Features are square roots of histograms of edge directions in cells, with unit norm. Training and test rows of a
    letter come from different faces. ``most`` limits the number of letters.
    """
    letters, n_faces = _letters()[:most], len(FACES)
    rng = np.random.default_rng(0)
    test_faces = [rng.permutation(n_faces)[:TEST_FACES] for _ in letters]
    test = np.repeat([np.isin(np.arange(n_faces), chosen) for chosen in test_faces], COPIES)
    pictures = [
        _distorted(_drawing(face, letter), rng) for letter in letters for face in FACES for _ in range(COPIES)
    ]
    y = np.repeat(np.arange(len(letters)), n_faces * COPIES)
    names = np.array([unicodedata.name(letter).lower() for letter in letters])
    return {**_split(_edge_histograms(np.stack(pictures)), y, test), "classes": names}


@functools.cache
def _font_file(face: str) -> Path:
    from matplotlib import get_data_path

    return Path(get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"


def _letters() -> list[str]:
    """Letters that every face has, without those that look like an earlier one, such as Greek and Cyrillic A."""
    from matplotlib.ft2font import FT2Font

    shared = set.intersection(*(set(FT2Font(str(_font_file(face))).get_charmap()) for face in FACES))
    of_looks: dict[bytes, str] = {}
    for letter in sorted(chr(code) for code in shared if chr(code).isalpha()):
        if unicodedata.name(letter).startswith(("LATIN", "GREEK", "CYRILLIC")):
            of_looks.setdefault(_drawing(FACES[0], letter).tobytes(), letter)
    return list(of_looks.values())


@functools.cache
def _font(face: str) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(str(_font_file(face)), SIDE * 5 // 8)


def _drawing(face: str, letter: str) -> Any:
    from PIL import Image, ImageDraw

    image = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(image).text((SIDE / 2, SIDE / 2), letter, fill=255, font=_font(face), anchor="mm")
    return image


def _distorted(drawing: Any, rng: np.random.Generator) -> NDArray[np.float32]:
    """A drawing that is turned, sheared, scaled and moved at random, with noise."""
    from PIL import Image

    angle, shear = rng.normal(0, 0.1, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = turn @ np.array([[1, shear], [0, 1]]) @ np.diag(np.exp(rng.normal(0, 0.1, 2)))
    centre = np.full(2, SIDE / 2)
    moved = centre - linear @ centre + rng.normal(0, 1.5, 2)
    coefficients = np.column_stack([linear, moved]).ravel().tolist()
    image = drawing.transform((SIDE, SIDE), Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR)
    noise = rng.standard_normal((SIDE, SIDE), np.float32)
    return np.asarray(image, np.float32) / 255 + np.float32(0.1) * noise


def _edge_histograms(pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, CELLS² · DIRECTIONS) features: the amount of edges of each direction in each cell."""
    return np.concatenate(
        [_histograms_of(part) for part in np.array_split(pictures, len(pictures) // 500 + 1)]
    )


def _histograms_of(pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    smooth = gaussian_filter(pictures, (0, 1, 1))
    down, right = np.gradient(smooth, axis=(1, 2))
    strength, angle = np.hypot(right, down), np.arctan2(down, right)
    direction = np.floor(angle / (2 * np.pi) * DIRECTIONS).astype(int) % DIRECTIONS
    cells = (len(pictures), CELLS, SIDE // CELLS, CELLS, SIDE // CELLS)
    counted = [(strength * (direction == d)).reshape(cells).sum(axis=(2, 4)) for d in range(DIRECTIONS)]
    histograms = np.sqrt(np.stack(counted, axis=-1).reshape(len(pictures), -1))
    return np.asarray(normalize(histograms), np.float32)


#: Maximum number of diagnoses per category, and the size of the embedding of their descriptions.
MOST_DIAGNOSES, COMPONENTS = 50, 256


def icd10cm_ngrams() -> Arrays:
    """Diagnoses of ICD-10-CM; the class is the category of three characters, the features come from the description.

    TF-IDF of character n-grams of 2 to 4, reduced to 256 components of unit norm by an SVD of the training rows. A
    quarter of the diagnoses of each category is for tests; categories with fewer than three diagnoses are left out.
    """
    described = _diagnoses()
    rng = np.random.default_rng(0)
    texts, y, test = [], [], []
    for label, diagnoses in enumerate(described.values()):
        chosen = rng.permutation(diagnoses)[:MOST_DIAGNOSES]
        texts += chosen.tolist()
        y += [label] * len(chosen)
        test += [k < max(1, len(chosen) // 4) for k in range(len(chosen))]
    arrays = _split(_embedded(texts, np.array(test)), np.array(y), np.array(test))
    return {**arrays, "classes": np.array(list(described))}


def _diagnoses() -> dict[str, list[str]]:
    """Descriptions of the codes without sub-codes, by category, for categories with at least three."""
    try:
        import simple_icd_10_cm as icd
    except ImportError:
        hint = "icd10cm-ngrams is made from a package that is not installed: pip install simple-icd-10-cm"
        raise PackageMissing(hint) from None
    of_category: dict[str, list[str]] = {}
    for code in icd.get_all_codes(with_dots=False):
        if icd.is_leaf(code) and len(code) > 3:
            of_category.setdefault(code[:3], []).append(icd.get_description(code))
    return {category: texts for category, texts in sorted(of_category.items()) if len(texts) >= 3}


def _embedded(texts: list[str], test: NDArray[np.bool_]) -> NDArray[np.float32]:
    ngrams = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), min_df=3, sublinear_tf=True, dtype=np.float32
    )
    counts = ngrams.fit([text for text, held in zip(texts, test, strict=True) if not held]).transform(texts)
    svd = TruncatedSVD(COMPONENTS, random_state=0).fit(counts[~test])
    return np.asarray(normalize(svd.transform(counts)), np.float32)


def _split(X: NDArray[np.float32], y: NDArray[np.integer], test: NDArray[np.bool_]) -> Arrays:
    return {"X_train": X[~test], "y_train": y[~test], "X_test": X[test], "y_test": y[test]}


MADE = {
    "waveform": MadeSet(waveform, "3 kinds of waves, 21 columns: drawn from Breiman's formula"),
    "glyphs": MadeSet(glyphs, "letters of three alphabets, drawn with the fonts that come with matplotlib"),
    "icd10cm-ngrams": MadeSet(
        icd10cm_ngrams,
        "diagnoses of ICD-10-CM by their category; character n-grams of their descriptions",
        "simple-icd-10-cm",
    ),
}
