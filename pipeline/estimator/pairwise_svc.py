"""PairwiseSVC: the model graph, its machines and their coupling behind scikit-learn's interface."""

from contextlib import nullcontext

import numpy as np
from rich.progress import Progress
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from pairloom import graphs
from pairloom.graphs.labels import quoted
from pairloom.pipeline.calibration.coupled import choose_platt, choose_scale
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.coupling.couple import METHODS
from pairloom.pipeline.estimator.class_changes import add_class, checksum, remove_class, retrain_pairs
from pairloom.pipeline.estimator.growing_model import grow_classifier
from pairloom.pipeline.estimator.pair_machines import PairMachines
from pairloom.pipeline.estimator.parameters import (
    candidate_Cs,
    check_parameters,
    is_auto,
    is_scale,
    one_of,
)
from pairloom.pipeline.estimator.requested_graph import requested_graph
from pairloom.pipeline.estimator.training_set import CALIBRATION_SAMPLES, TrainingSet
from pairloom.pipeline.features.class_distances import kernel_mean_distances, mean_distances
from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.machines.estimator_model import train_estimator_model
from pairloom.pipeline.machines.linear_machines import MachineSettings, scaled_C
from pairloom.pipeline.machines.linear_model import LinearModel, train_linear_model
from pairloom.pipeline.machines.logits import calibrated, collapse, out_of_fold_edge_logits
from pairloom.pipeline.pieces import in_threads, thread_count

#: What `whiten="auto"` chooses from, by out-of-fold coupled log loss: on three sets of embeddings the test loss is flat
#: about 0.8 and least there.
SHRINKAGES = (None, 0.8)
#: Training samples for comparing candidates on a sparser graph.
PROBE_SAMPLES = 1000
#: Samples of a prediction at a time, whatever the number of threads: the products keep their shape, and so their bits.
PREDICTION_BATCH = 256
#: Root of the features' total variance beyond which products of float32 rows overflow, or below which they vanish.
LEAST_SPREAD, MOST_SPREAD = 1e-15, 1e15
_LEAST = np.finfo(np.float32).tiny


class PairwiseSVC(ClassifierMixin, BaseEstimator):
    """Multi-class classification by pairs of classes, with probabilities that can be trusted.

    A two-class machine is trained for every edge of a model graph over the classes, calibrated on samples that it has
    not seen, and their logits are coupled into probabilities. One scale, chosen by the likelihood of the coupled model
    on out-of-fold training samples, makes these right for many classes.

    Parameters
    ----------
    graph : str, mapping or networkx.Graph, default="hub_neighbours"
        Which pairs to train: a family's name; its name and parameters, ``{"family": "bipartite", "hubs": 5}``; or a
        connected graph whose nodes are the classes. "hub_neighbours" keeps the accuracy of all pairs at a tenth of
        the cost; "complete" trains all.
    coupling : {"stratified", "wlw2", "normal", "bradley_terry", "vote"}
        How the pairs become probabilities; see `couple`.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"}
        Linear machines are Pairloom's own; others are scikit-learn's SVC.
    C : float, "scale", or a list of these
        The cost of an error. "scale" is 10 / mean squared norm of the centred features (10 for other kernels). Of a
        list the best by out-of-fold coupled log loss is kept, and `candidates_` tells.
    folds : int, default=4
    fit_on : {"rest", "fold"}
        Fit machine k on all folds but k and calibrate it on k; or, as in the paper, the other way round: cheaper.
    calibration : {"average", "crossval"}
        Average the calibrated machines of the folds; or LIBSVM's way, one machine on all samples.
    calibrate : {"scale", "platt", None}
        One scale for the coupled model; every edge's slope and shift as well; or neither.
    whiten : None, float in [0, 1] or "auto"
        Train linear machines on features whitened by the pooled within-class covariance, shrunk this much towards a
        multiple of the identity. "auto" is 0.8 where the out-of-fold coupled log loss is then clearly less, else None.
    thresholds : bool, default=False
        Shift each pair's logit to where it makes fewest errors on samples its machines have not seen.
    estimator : scikit-learn classifier, optional
        Any two-class learner with decision_function or predict_proba, in place of the SVM.
    priors : array of shape (n_classes,), optional
        The share of each class where predictions are made, if it is not that of the training samples. Applied at
        prediction: `set_params(priors=...)` needs no refit.
    class_weight : dict, "balanced" or None
        A weight for the samples of each class, in the machines and in what calibrates them, times `sample_weight`;
        linear machines.
    tol : float, default=1e-3
        Duality gap at which a machine is done, relative to its objective.
    memory_limit : int, default=2**29
        Bytes for the logits of all pairs at prediction, a thread.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    random_state : int, optional
        Seeds the folds, and the samples that calibrate.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : array of the class labels, sorted
    graph_ : networkx.Graph on the indices of the classes
    edges_ : (E, 2) array of indices into `classes_`
    machines_ : the trained machines: arrays for linear ones
    pairs_ : mapping of a pair of class labels to its `PairMachine`
    C_, whiten_, scale_ : what was chosen
    candidates_ : list of dicts (C, whiten, log_loss), what was compared where there was a choice
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> PairwiseSVC(random_state=0).fit(X, y).predict_proba(X[:1]).argmax()
    np.int64(0)
    """

    def __init__(
        self,
        graph="hub_neighbours",
        coupling="stratified",
        kernel="linear",
        C="scale",
        folds=4,
        fit_on="rest",
        calibration="average",
        calibrate="scale",
        whiten="auto",
        thresholds=False,
        estimator=None,
        priors=None,
        class_weight=None,
        tol=1e-3,
        memory_limit=2**29,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.graph = graph
        self.coupling = coupling
        self.kernel = kernel
        self.C = C
        self.folds = folds
        self.fit_on = fit_on
        self.calibration = calibration
        self.calibrate = calibrate
        self.whiten = whiten
        self.thresholds = thresholds
        self.estimator = estimator
        self.priors = priors
        self.class_weight = class_weight
        self.tol = tol
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Fitting, in the order of the data's way.

    def fit(self, X, y, sample_weight=None):
        """Train the machines of the model graph and calibrate the coupled model.

        Parameters
        ----------
        X : (n, D) array or CSR matrix (linear machines), or (n, n) kernel matrix
        y : (n,) labels
        sample_weight : (n,) array, optional; linear machines
            What C is multiplied by, and the weight in all calibration. Zero is as if the sample were not there.

        Returns
        -------
        self
        """
        check_parameters(self)
        X, y = validate_data(self, X, y, accept_sparse=self._sparse, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        X, y, sample_weight = self._weighted_samples(X, y, sample_weight)
        classes = self._encode(y)
        training = self._training_set(X, classes, sample_weight)
        self._weighted = sample_weight is not None
        self._prior_odds()
        self._shares = self._settings(C=1.0).scheme.shares
        self.graph_ = requested_graph(self.graph, self.classes_.tolist(), lambda: self._distances(training))
        self.edges_ = graphs.edge_array(self.graph_)
        with threadpool_limits(1):
            self._model, choice = self._choose_model(training)
            self._calibrate_coupled(training, choice)
        return self

    @property
    def _sparse(self):
        """Which sparse matrices will do."""
        return False if self._precomputed else "csr"

    def _settings(self, C):
        return MachineSettings(
            C=float(C),
            folds=int(self.folds),
            fit_on=self.fit_on,
            calibration=self.calibration,
            thresholds=bool(self.thresholds),
            tol=float(self.tol),
            seed=self._seed(),
        )

    def _seed(self):
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.get_state()[1][0])
        return int(self.random_state)

    @property
    def _linear(self):
        return self.estimator is None and self.kernel == "linear"

    @property
    def _precomputed(self):
        return self.estimator is None and self.kernel == "precomputed"

    def _weighted_samples(self, X, y, sample_weight):
        """What counts: a sample of weight zero is left out, from the folds and the means too."""
        if sample_weight is None:
            return X, y, None
        self._refuse_weights()
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weight)
        return (X, y, weight) if len(kept) == len(weight) else (X[kept], y[kept], weight[kept])

    def _refuse_weights(self):
        if not self._linear:
            raise ValueError(
                "PairwiseSVC: sample_weight and class_weight are for kernel='linear' without an estimator,"
                f" got kernel={self.kernel!r}, estimator={self.estimator!r}."
            )

    def _encode(self, y):
        self.classes_, classes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"PairwiseSVC: y must hold at least 2 classes, got one class: {quoted(self.classes_[0])}."
            )
        self._class_keys = np.arange(len(self.classes_))
        counts = np.bincount(classes)
        if counts.min() < self.folds:
            c = int(counts.argmin())
            raise ValueError(
                "PairwiseSVC: folds must be at least 2 and at most the size of the smallest class"
                f" (class {quoted(self.classes_[c])} has {counts[c]} samples), got {self.folds}."
            )
        return classes

    def _training_set(self, X, classes, weight):
        if self.class_weight is not None:
            self._refuse_weights()
            of_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_[classes]
            )
            if not (of_class > 0).all():
                c = int(np.argmin(of_class))
                raise ValueError(
                    f"PairwiseSVC: class_weight must be positive, got {of_class[c]:g} for class"
                    f" {quoted(self.classes_[c])}."
                )
            weight = of_class[classes] * (1.0 if weight is None else weight)
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"PairwiseSVC: X must be a square kernel matrix for kernel='precomputed', got {X.shape}."
            )
        if sparse.issparse(X) and self._linear:
            # Machines are dense in every feature, and so is what they are trained on.
            X = X.toarray()
        if self._linear:
            self._class_sums = np.array([checksum(X[classes == c]) for c in range(len(self.classes_))])
            # The machines are float32: of features far from zero, such as years, they would see little else.
            self._centre = X.mean(axis=0, dtype=np.float64)
            X = self._centred(X)
        members = [np.flatnonzero(classes == c) for c in range(len(self.classes_))]
        self.class_shares_ = np.bincount(classes, weight) / (len(classes) if weight is None else weight.sum())
        return TrainingSet(X, classes, members, weight)

    def _centred(self, X):
        """Rows as linear machines are given them: in the precision they came in."""
        X = np.asarray(X)
        return X - self._centre.astype(np.float32 if X.dtype == np.float32 else np.float64)

    def _distances(self, training):
        n = len(self.classes_)
        if self._precomputed:
            return kernel_mean_distances(training.X, training.classes, n)
        return mean_distances(training.X, training.classes, n)

    def _choose_model(self, training):
        """Train the candidate with the least out-of-fold coupled log loss; `candidates_` is the table of all.

        Returns the model, and its scale where the comparison has found it already.
        """
        shrinkages = SHRINKAGES if is_auto(self.whiten) else (self.whiten,)
        # C is an estimator's own affair.
        costs = candidate_Cs(self.C) if self.estimator is None else ["scale"]
        candidates = [
            (self._cost(C, training), t) for C in costs for t in (shrinkages if self._linear else (None,))
        ]
        (self.C_, self.whiten_), self.candidates_ = candidates[0], []
        compared = self._compare(training, candidates) if len(candidates) > 1 else {}
        if (self.C_, self.whiten_) in compared:
            return compared[self.C_, self.whiten_]
        return self._train(training, self.edges_, self.C_, self.whiten_, self._progress()), None

    def _compare(self, training, candidates):
        """Choose C_ and whiten_ among the candidates. Returns models and scales if of the model's own graph."""
        graph = self._probe_graph(training)
        own = graph is self.graph_
        edges, completion = graphs.edge_array(graph), plan_completion(graph)
        most = CALIBRATION_SAMPLES if own else PROBE_SAMPLES
        whitened = self.whiten is not None
        compared, losses = {}, {}
        for C, t in candidates:
            model = self._train(training, edges, C, t, self._progress() if own else None)
            choice = self._choose_scale(model, training, edges, completion, most, whitened)
            self.candidates_.append({"C": C, "whiten": t, "log_loss": choice.log_loss})
            losses[C, t] = choice.losses
            if own:
                as_calibrated = whitened == (t is not None) or training.draws_are_the_same(most)
                compared[C, t] = model, choice if as_calibrated else None
        best = min(self.candidates_, key=lambda row: row["log_loss"])
        self.C_, self.whiten_ = best["C"], best["whiten"]
        plain = self.C_, None
        if plain in losses and not _clearly_less(losses[self.C_, self.whiten_], losses[plain]):
            self.whiten_ = None
        return compared

    def _cost(self, C, training):
        if not self._linear:
            return 10.0 if is_scale(C) else float(C)
        spread = float(training.X.var(axis=0, dtype=np.float64).sum())
        if spread > 0 and not LEAST_SPREAD < np.sqrt(spread) < MOST_SPREAD:
            raise ValueError(
                f"PairwiseSVC: X must have a standard deviation between {LEAST_SPREAD:g} and {MOST_SPREAD:g}"
                f" (root of the sum of its columns' variances), got {np.sqrt(spread):g}: scale the features."
            )
        return scaled_C(spread) if is_scale(C) else float(C)

    def _probe_graph(self, training):
        """A graph on which candidates are compared: the model's own, or a sparser one where that has far more pairs.

        A sparse graph flatters whitening: on usps it preferred it in 3 of 6 draws, where it costs 2 to 6%.
        """
        n = len(self.classes_)
        sparse_graph = graphs.hub_neighbours(self._distances(training), hubs=1, neighbours=min(4, n - 1))
        many = self.graph_.number_of_edges() > 3 * sparse_graph.number_of_edges()
        return sparse_graph if many else self.graph_

    def _train(self, training, edges, C, shrinkage, progress=None):
        with progress or nullcontext(None) as bar:
            advance = None
            if bar is not None:
                task = bar.add_task("pairs", total=len(edges))
                advance = lambda done: bar.advance(task, done)  # noqa: E731
            settings = self._settings(C)
            if not self._linear:
                estimator = self.estimator if self.estimator is not None else SVC(kernel=self.kernel, C=C)
                return train_estimator_model(
                    estimator,
                    training.X,
                    training.members,
                    edges,
                    settings,
                    precomputed=self._precomputed,
                    n_threads=thread_count(self.n_jobs, "PairwiseSVC"),
                    progress=advance,
                )
            weights = training.by_class(training.weight)
            return train_linear_model(
                training.by_class(training.X),
                edges,
                settings,
                training.whitening(shrinkage, settings),
                thread_count(self.n_jobs, "PairwiseSVC"),
                advance,
                costs=weights,
                weights=weights,
            )

    def _progress(self):
        return Progress() if self.verbose else None

    def _calibrate_coupled(self, training, choice):
        """Choose the scale unless it is there, or every edge's slope and shift, and fold them into the logits."""
        self._completion = plan_completion(self.graph_)
        n_edges = len(self.edges_)
        self.scale_, slope, shift = 1.0, np.ones(n_edges), np.zeros(n_edges)
        if self.calibrate is not None:
            choice = choice or self._choose_scale(
                self._model,
                training,
                self.edges_,
                self._completion,
                CALIBRATION_SAMPLES,
                self.whiten_ is not None,
            )
            self.scale_, slope = choice.scale, np.full(n_edges, choice.scale)
        if self.calibrate == "platt":
            logits, y, weight = self._out_of_fold(
                self._model, training, self.edges_, CALIBRATION_SAMPLES, self.whiten_ is not None
            )
            slope, shift, _ = choose_platt(
                logits, y, self._completion, self.coupling, self.scale_, weight=weight
            )
        self._slope, self._shift = slope, shift
        self._collapse()

    def _choose_scale(self, model, training, edges, completion, most, whitened):
        logits, y, weight = self._out_of_fold(model, training, edges, most, whitened)
        return choose_scale(
            logits,
            y,
            completion,
            self.coupling,
            weight=weight,
            n_jobs=self.n_jobs,
            memory_limit=self.memory_limit,
        )

    def _out_of_fold(self, model, training, edges, most, whitened):
        """Logits of some training samples, as many of every class, by machines that have not seen them; their classes
        and weights.
        """
        settings = self._settings(C=1.0)
        samples, classes, folds = training.drawn(most, settings, whitened)
        scheme = settings.scheme
        logits = out_of_fold_edge_logits(model.logits, edges, scheme, training.X[samples], classes, folds)
        return logits, classes, None if training.weight is None else training.weight[samples]

    def _collapse(self):
        """The logits of centred samples as one affine map, calibrated: what prediction needs of linear machines."""
        self._affine = None
        if isinstance(self._model, LinearModel):
            affine = collapse(self._model.machines, self._shares, self._model.whitening)
            self._affine = calibrated(affine, self._slope, self._shift)

    # Prediction.

    def predict_proba(self, X):
        """(R, N) probabilities, columns in the order of `classes_`."""
        check_is_fitted(self)
        one_of(self, "coupling", tuple(METHODS))
        X = validate_data(self, X, accept_sparse=self._sparse, dtype=[np.float64, np.float32], reset=False)
        p = np.empty((X.shape[0], len(self.classes_)), X.dtype)
        with threadpool_limits(1):
            in_threads(
                lambda samples: self._predict_batch(X, samples, p),
                _batches(len(p)),
                thread_count(self.n_jobs, "PairwiseSVC"),
            )
        return p

    def _predict_batch(self, X, samples, p):
        logits = self._edge_logits(X[samples])
        coupled = couple_slab(logits, self._completion, [self.coupling], memory_limit=self.memory_limit)[
            self.coupling
        ]
        odds = coupled.astype(np.float64)
        if self.priors is not None:
            # A class with all the probability may have no share: what is left must not be all zeros.
            odds = np.maximum(odds, _LEAST) * self._prior_odds()
        p[samples] = odds / odds.sum(axis=1, keepdims=True)

    def _edge_logits(self, X):
        """(E, R) calibrated logits of the edges."""
        if self._affine is not None:
            return self._affine(self._centred(X.toarray() if sparse.issparse(X) else X))
        logits = self._model.logits(self._shares, X)
        return (logits * self._slope[:, None] + self._shift[:, None]).astype(np.float32)

    def _prior_odds(self):
        """What new priors multiply the probabilities by: the new share of a class over its share in training."""
        n = len(self.classes_)
        if self.priors is None:
            return np.ones(n)
        try:
            priors = np.asarray(self.priors, np.float64)
        except (TypeError, ValueError):
            priors = np.empty(0)  # not numbers
        if priors.shape != (n,) or not (priors >= 0).all() or not 0 < priors.sum() < np.inf:
            raise ValueError(
                f"PairwiseSVC: priors must be {n} non-negative numbers, one a class, got {self.priors!r}."
            )
        return priors / priors.sum() / self.class_shares_

    def predict_log_proba(self, X):
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X):
        """(R, N) log probabilities; for two classes (R,), the log-odds of the second."""
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if len(self.classes_) == 2 else log_p

    def predict(self, X):
        """The class with the largest probability."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    # What was trained.

    @property
    def machines_(self):
        """The trained machines: a `Machines` of arrays for linear ones, else a list of fitted classifiers by edge."""
        return self._model.machines if isinstance(self._model, LinearModel) else self._model.pairs

    @property
    def pairs_(self):
        """Mapping of a pair of class labels (a, b) to the logit of a against b, for linear machines."""
        if self._affine is None:
            raise AttributeError("PairwiseSVC: pairs_ is for linear machines.")
        weights = self._affine.weights
        bias = self._affine.bias - weights.astype(np.float64) @ self._centre
        return PairMachines(self.classes_.tolist(), self.edges_, weights, bias, self.machines_.dprime)

    # Changes to a fitted model that leave all other machines as they are.

    def add_class(self, label, X_new, X, y, *, neighbours=None):
        """Add a class: train its edges to the hubs and its nearest classes. See `class_changes.add_class`."""
        check_is_fitted(self)
        return add_class(self, label, X_new, X, y, neighbours=neighbours)

    def remove_class(self, label):
        """Take a class out; nothing is trained. See `class_changes.remove_class`."""
        check_is_fitted(self)
        return remove_class(self, label)

    def retrain_pairs(self, pairs, X, y, **changes):
        """Train chosen pairs again with another C or tolerance. See `class_changes.retrain_pairs`."""
        check_is_fitted(self)
        return retrain_pairs(self, pairs, X, y, **changes)

    def grow(self, X, y, *, cost="confusion", wave=None, pairs=None, share=None, seconds=None, plateau=0.01):
        """Train more pairs, those that are worth most first, until a budget is spent or nothing is gained.

        An iterator: each step trains a wave of pairs and says how good the model is on training samples that its
        machines have not seen, its scale being chosen anew; the first trains nothing. In between the model can be used;
        whoever has waited long enough just stops.

        Parameters
        ----------
        X, y : the samples of the fit, in the same order
        cost : {"confusion", "dprime", "uniform"} or function of two labels
            Which pairs come first: those the model confuses most, those with the least d', any, or the least of a
            function.
        wave : int, optional
            Pairs added at a time; by default a fifth of those there are, at least one for each class.
        pairs, share, seconds, plateau
            The budget, as in `growth.GrowthBudget`: pairs in all, a share of all pairs, seconds, and the relative gain
            in log loss below which two waves in a row end it ("never").

        Yields
        ------
        Wave
            ``pairs``, ``scale``, ``log_loss``, ``accuracy``, and ``proposed``, the pairs of the next wave.
        """
        check_is_fitted(self)
        return grow_classifier(self, X, y, cost, wave, GrowthBudget(pairs, share, seconds, plateau))

    def save(self, path):
        """Write the fitted model into a new folder: arrays in zarr, the rest in JSON. Linear machines only."""
        from pairloom.pipeline.estimator.saved_model import save

        save(self, path)

    @classmethod
    def load(cls, path):
        """Read a model that `save` has written. Runs no code from the folder."""
        from pairloom.pipeline.estimator.saved_model import load

        return load(cls, path)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = (
            not self._precomputed if self.estimator is None else get_tags(self.estimator).input_tags.sparse
        )
        tags.input_tags.pairwise = self._precomputed
        return tags


def _clearly_less(losses, others):
    """Whether the mean of paired losses is less by more than chance would have it: two standard errors."""
    difference = losses - others
    return difference.mean() < -2 * difference.std() / np.sqrt(len(difference))


def _batches(n_samples):
    return [
        slice(low, min(low + PREDICTION_BATCH, n_samples)) for low in range(0, n_samples, PREDICTION_BATCH)
    ]
