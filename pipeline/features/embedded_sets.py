"""The sets that need no file: scikit-learn's digits, and synthetic features that behave like a network's last layer.

Synthetic features have the properties of a ResNet-18's pooled last layer that matter to a pairwise classifier: 512
non-negative features, classes that cluster in super-classes and are confused within them, and a within-class
covariance of low rank. They serve to try a run without data; accuracies on them say nothing about images.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.row_sources import ArrayRows, Arrays, GeneratedRows

__all__ = [
    "CLASSES",
    "EMBEDDED",
    "FEATURES",
    "IMAGENET50",
    "IMAGENET1000",
    "IMAGENET21841",
    "RECIPES",
    "ImageNetClass",
    "SyntheticSet",
]

FEATURES = 512
_RANK = 24
_BASELINE = -0.3
_WITHIN_SPREAD = 3.0
_NOISE = 0.78

# First words of the seed sequences, so that no two draws share a stream.
_LAYER, _SUPERCLASS, _CLASS, _TRAIN, _TEST = range(5)


class SyntheticSet(NamedTuple):
    """Classes with synthetic features. A change of any parameter changes the data, so it must change the version too.

    Parameters
    ----------
    names : tuple of str
    superclasses : tuple of int
        The super-class of each class: the centre of a class is drawn near that of its super-class.
    seed : int
    superclass_spread, class_spread : float
        How far the centres of super-classes are from each other, and those of classes from their super-class.
    features : int
    version : int
    """

    names: tuple[str, ...]
    superclasses: tuple[int, ...]
    seed: int
    superclass_spread: float
    class_spread: float
    features: int = FEATURES
    version: int = 1

    def rows_of_class(self, label: int, rows: int, *, test: bool = False) -> NDArray[np.float32]:
        """(rows, features) of a class, for training or for tests: non-negative, about half zero as after a ReLU.

        A shorter draw is the beginning of a longer one.
        """
        stream = self._draw(_TEST if test else _TRAIN, label)
        latent = stream.standard_normal((rows, _RANK + self.features))
        within = latent[:, :_RANK] @ _within_class_factor(self.seed, self.features)
        activation = self._centre(label) + within + _NOISE * latent[:, _RANK:]
        return np.maximum(activation, 0.0).astype(np.float32)

    def arrays(self, n_train: int, n_test: int, *, tested: int | None = None) -> Arrays:
        """The set with ``n_train`` and ``n_test`` rows per class, which are generated when they are read.

        ``tested`` is the number of classes with test rows, spread evenly; by default all have some.
        """
        arrays: Arrays = {"classes": np.array(self.names)}
        every = np.arange(len(self.names))
        some = every if tested is None else every[:: len(every) // tested][:tested]
        for part, rows, labels in (("train", n_train, every), ("test", n_test, some)):
            of_class = functools.partial(self._rows_of_place, labels, rows, part == "test")
            arrays[f"X_{part}"] = GeneratedRows(of_class, len(labels), rows, self.features)
            arrays[f"y_{part}"] = np.repeat(labels, rows)
        return arrays

    def _rows_of_place(
        self, labels: NDArray[np.int64], rows: int, test: bool, place: int
    ) -> NDArray[np.float32]:
        return self.rows_of_class(int(labels[place]), rows, test=test)

    def _centre(self, label: int) -> NDArray[np.float64]:
        superclass = self._draw(_SUPERCLASS, self.superclasses[label])
        return (
            _BASELINE
            + self.superclass_spread * superclass.standard_normal(self.features)
            + self.class_spread * self._draw(_CLASS, label).standard_normal(self.features)
        )

    def _draw(self, *key: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *key))


@functools.cache
def _within_class_factor(seed: int, features: int) -> NDArray[np.float64]:
    """Rank-24 factor of the within-class covariance, shared by all classes, with falling singular values."""
    directions = np.random.default_rng((seed, _LAYER)).standard_normal((_RANK, features)) / np.sqrt(_RANK)
    factor: NDArray[np.float64] = directions * _WITHIN_SPREAD / np.sqrt(1 + np.arange(_RANK))[:, None]
    return factor


class ImageNetClass(NamedTuple):
    """A class of ImageNet: its WordNet id, its name, and the super-class that we put it into."""

    wordnet_id: str
    name: str
    superclass: str


_TABLE = """
n01558993 robin bird                n01582220 magpie bird               n01622779 great_grey_owl bird
n01698640 American_alligator water  n01980166 fiddler_crab water        n02018795 bustard bird
n02025239 ruddy_turnstone bird      n02028035 redshank bird             n02091134 whippet dog
n02091244 Ibizan_hound dog          n02094114 Norfolk_terrier dog       n02096177 cairn dog
n02096585 Boston_bull dog           n02101388 Brittany_spaniel dog      n02101556 clumber dog
n02114548 white_wolf mammal         n02119789 kit_fox mammal            n02123045 tabby mammal
n02177972 weevil insect             n02264363 lacewing insect           n02423022 gazelle mammal
n02641379 gar water                 n02655020 puffer water              n02676566 acoustic_guitar instrument
n02777292 balance_beam sport        n02790996 barbell sport             n02807133 bathing_cap headgear
n03017168 chime instrument          n03089624 confectionery shop        n03180011 desktop_computer device
n03196217 digital_clock device      n03201208 dining_table furniture    n03417042 garbage_truck vehicle
n03658185 letter_opener tool        n03721384 marimba instrument        n03776460 mobile_home vehicle
n03929855 pickelhaube headgear      n03950228 pitcher vessel            n04026417 purse fabric
n04033995 quilt fabric              n04118776 rule tool                 n04254120 soap_dispenser vessel
n04277352 spindle tool              n04525038 velvet fabric             n04589890 window_screen furniture
n06596364 comic_book shop           n06874185 traffic_light device      n07730033 cardoon plant
n09256479 coral_reef water          n12144580 corn plant
"""

#: The fifty classes of ImageNet-50, which are real; only their features are synthetic.
CLASSES = tuple(ImageNetClass(*fields) for fields in zip(*[iter(_TABLE.split())] * 3, strict=True))
_SUPERCLASSES = sorted({row.superclass for row in CLASSES})

#: A logistic regression on 200 rows per class errs on about 15% of the test rows, and nine errors in ten are within a
#: super-class.
IMAGENET50 = SyntheticSet(
    tuple(row.name for row in CLASSES),
    tuple(_SUPERCLASSES.index(row.superclass) for row in CLASSES),
    seed=50,
    superclass_spread=0.24,
    class_spread=0.15,
)
#: As many classes as ImageNet has, half a million pairs; ten classes make a super-class. A pairwise model of 100 rows
#: per class is right for five test rows in six, the nearest class mean for one in four.
IMAGENET1000 = SyntheticSet(
    tuple(f"class {number:04d}" for number in range(1, 1001)),
    tuple(label // 10 for label in range(1000)),
    seed=1000,
    superclass_spread=0.3,
    class_spread=0.2,
)
#: As many classes as the whole of ImageNet has.
IMAGENET21841 = SyntheticSet(
    tuple(f"class {number:05d}" for number in range(1, 21842)),
    tuple(label // 10 for label in range(21841)),
    seed=21841,
    superclass_spread=0.3,
    class_spread=0.3,
)
#: More classes than any set of pictures has.
_CLASSES100000 = "classes100000-synthetic"


def _classes100000() -> Arrays:
    """A hundred thousand classes with ten rows of 128 features; built on demand, since even the names take a while."""
    return SyntheticSet(
        tuple(f"class {number:06d}" for number in range(1, 100_001)),
        tuple(label // 10 for label in range(100_000)),
        seed=100_000,
        superclass_spread=0.6,
        class_spread=0.6,
        features=128,
    ).arrays(10, 1, tested=10_000)


def _digits() -> Arrays:
    from sklearn.datasets import load_digits  # sklearn.datasets takes half a second to import

    X, y = load_digits(return_X_y=True)
    return {"X": ArrayRows(X), "y": y}


EMBEDDED: dict[str, Callable[[], Arrays]] = {
    "digits": _digits,
    "imagenet50-synthetic": functools.partial(IMAGENET50.arrays, 200, 50),
    # As many rows per class as the paper has [S 2.3].
    "imagenet50-synthetic-paper": functools.partial(IMAGENET50.arrays, 10_000, 50),
    "imagenet1000-synthetic": functools.partial(IMAGENET1000.arrays, 200, 10),
    "imagenet21841-synthetic": functools.partial(IMAGENET21841.arrays, 40, 1, tested=10_000),
    _CLASSES100000: _classes100000,
}
#: Fingerprints of the synthetic sets: their features come from a matrix product, whose last bits differ between CPUs.
RECIPES = {
    name: f"{name} version {recipe.version}"
    for name, recipe in {
        "imagenet50-synthetic": IMAGENET50,
        "imagenet50-synthetic-paper": IMAGENET50,
        "imagenet1000-synthetic": IMAGENET1000,
        "imagenet21841-synthetic": IMAGENET21841,
    }.items()
} | {_CLASSES100000: f"{_CLASSES100000} version 1"}
