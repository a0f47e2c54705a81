"""ImageNet-50: the fifty classes, and synthetic features that behave like a network's last layer.

The classes are real (names and WordNet ids of fifty ImageNet classes); the features are **synthetic**, see
`synthetic_layer`. With them a run can be tried without data, but they are no evidence of a method's accuracy on images.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.synthetic_layer import FEATURES, SyntheticLayer

__all__ = ["CLASSES", "FEATURES", "ImageNetClass", "synthetic_class"]


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

# With these, a logistic regression on 200 rows per class errs on about 15% of the test rows, and nine errors in ten are
# within a super-class. Whoever changes one of them changes the data, and must change GENERATOR_VERSION too.
GENERATOR_VERSION = 1
_LAYER = SyntheticLayer(seed=50, superclass_spread=0.24, class_spread=0.15)
_SUPERCLASSES = sorted({row.superclass for row in CLASSES})


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
    superclass = _SUPERCLASSES.index(CLASSES[label].superclass)
    return _LAYER.rows_of_class(label, superclass, rows, test=test)
