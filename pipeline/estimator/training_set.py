"""The training samples by class, and what is found from them once."""

import numpy as np

from pairloom.pipeline.calibration.drawn_samples import draw_samples, draws_by_class
from pairloom.pipeline.machines.whitening import centring, within_classes

#: Training samples whose out-of-fold logits calibrate the coupled model.
CALIBRATION_SAMPLES = 2000


class TrainingSet:
    """Samples X, their classes counted from 0, the rows of each class, and weights or None."""

    def __init__(self, X, classes, members, weight):
        self.X, self.classes, self.members, self.weight = X, classes, members, weight
        self._within = None

    def by_class(self, values):
        """Mapping of class -> its rows of `values`, or None."""
        return None if values is None else {c: values[rows] for c, rows in enumerate(self.members)}

    def whitening(self, shrinkage, settings):
        """The whitening at a shrinkage, from the samples that do not calibrate: see `drawn_samples.draws_by_class`."""
        if shrinkage is None:
            return centring(self.X)
        if self._within is None:
            calibrating = self.drawn(CALIBRATION_SAMPLES, settings, whitened=True).rows
            others = np.delete(np.arange(len(self.classes)), calibrating)
            self._within = within_classes(self.X[others], self.classes[others])
        return self._within.whitening(shrinkage)

    def draws_are_the_same(self, most):
        """Whether every class is large enough to give as many samples with whitening as without."""
        sizes = np.array([len(rows) for rows in self.members])
        return np.array_equal(*(draws_by_class(sizes, most, whitened) for whitened in (False, True)))

    def drawn(self, most, settings, whitened):
        """Training samples that calibrate the coupled model, with their classes and folds."""
        return draw_samples(self.classes, most, settings.folds, settings.seed, whitened)
