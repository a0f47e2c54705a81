"""ImageNet-50: the fifty classes, and synthetic features that behave like a network's last layer.

The classes are real (names and WordNet ids of fifty ImageNet classes); the features are **synthetic**. They are drawn
from a model that shares the properties of a ResNet-18's pooled last layer that matter to a pairwise classifier: 512
non-negative features, classes that cluster in super-classes and are confused within them, and a within-class covariance
of low rank. They make it possible to try a run without data, but are no evidence of a method's accuracy on images.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASSES", "FEATURES", "ImageNetClass", "synthetic_class", "synthetic_split"]


class ImageNetClass(NamedTuple):
    """One class: its WordNet id, its name, and the super-class whose centre its own is drawn near."""

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

CLASSES = tuple(ImageNetClass(*fields) for fields in zip(*[iter(_TABLE.split())] * 3, strict=True))

FEATURES = 512

# Parameters of the generator. With them, a logistic regression on 200 rows per class errs on about 15% of the test
# rows, and nine errors in ten are within a super-class. Whoever changes one of them changes the data, and must change
# GENERATOR_VERSION too.
GENERATOR_VERSION = 1
_SEED = 50
_RANK = 24
_BASELINE = -0.3
_SUPERCLASS_SPREAD = 0.24
_CLASS_SPREAD = 0.15
_WITHIN_SPREAD = 3.0
_NOISE = 0.78

# First words of the seed sequences, so that no two draws share a stream.
_LAYER, _SUPERCLASS, _CLASS, _TRAIN, _TEST = range(5)


def _draw(*key: int) -> np.random.Generator:
    return np.random.default_rng((_SEED, *key))


def _within_class_factor() -> NDArray[np.float64]:
    """Rank-24 factor of the within-class covariance, shared by all classes, with falling singular values."""
    directions = _draw(_LAYER).standard_normal((_RANK, FEATURES)) / np.sqrt(_RANK)
    factor: NDArray[np.float64] = directions * _WITHIN_SPREAD / np.sqrt(1 + np.arange(_RANK))[:, None]
    return factor


def _class_centre(label: int) -> NDArray[np.float64]:
    superclasses = sorted({row.superclass for row in CLASSES})
    superclass = superclasses.index(CLASSES[label].superclass)
    return (
        _BASELINE
        + _SUPERCLASS_SPREAD * _draw(_SUPERCLASS, superclass).standard_normal(FEATURES)
        + _CLASS_SPREAD * _draw(_CLASS, label).standard_normal(FEATURES)
    )


def synthetic_class(label: int, rows: int, *, test: bool = False) -> NDArray[np.float32]:
    """Draw synthetic features of one class.

    Parameters
    ----------
    label : int
        Index into `CLASSES`.
    rows : int
        Number of samples. A shorter draw is the beginning of a longer one.
    test : bool
        Whether to draw test samples instead of training samples.

    Returns
    -------
    (rows, 512) float32 array
        Non-negative, about half of them zero, as after a rectifier.
    """
    stream = _draw(_TEST if test else _TRAIN, label)
    latent = stream.standard_normal((rows, _RANK + FEATURES))
    activation = (
        _class_centre(label) + latent[:, :_RANK] @ _within_class_factor() + _NOISE * latent[:, _RANK:]
    )
    return np.maximum(activation, 0.0).astype(np.float32)


def synthetic_split(
    rows_per_class: int, *, test: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and labels of all fifty classes, ``rows_per_class`` each, in the order of `CLASSES`."""
    features = [synthetic_class(label, rows_per_class, test=test) for label in range(len(CLASSES))]
    return np.concatenate(features), np.repeat(np.arange(len(CLASSES)), rows_per_class)
