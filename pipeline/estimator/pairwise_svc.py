"""PairwiseSVC: the model graph, its machines and their coupling behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Literal, Self, overload

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    _check_feature_names,
    check_is_fitted,
    validate_data,
)

from pairloom import graphs
from pairloom.graphs.checks import check_count
from pairloom.graphs.text import quoted
from pairloom.pipeline import display
from pairloom.pipeline.calibration.coupled_learning import LearningRecord
from pairloom.pipeline.calibration.held_out import CALIBRATION_SAMPLES
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.display.printed_tables import Records
from pairloom.pipeline.estimator.containers import decisions, gathered, keeps_container, labels, probabilities
from pairloom.pipeline.estimator.fit import fit_samples, row_ids, support_ids, training_samples
from pairloom.pipeline.estimator.input_checks import samples_explained
from pairloom.pipeline.estimator.parameters import (
    check_parameters,
    check_values,
    is_precomputed,
    resources_of,
    shortlist_of,
    takes_sparse,
)
from pairloom.pipeline.growth.waves import GrowthBudget, GrowthCost, Wave
from pairloom.pipeline.machines.estimator_machines import PairEstimators
from pairloom.pipeline.machines.kernel_function import Gamma
from pairloom.pipeline.machines.kernel_machines import KernelMachines
from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.machines.normalisation import Shrinkage
from pairloom.pipeline.model.class_changes import add_class, remove_class, retrain_pairs
from pairloom.pipeline.model.class_groups import GroupAnswers, answers_at, class_groups, least_probability
from pairloom.pipeline.model.explaining import Explanation, explain
from pairloom.pipeline.model.fit_progress import NO_PROGRESS, PrintedProgress
from pairloom.pipeline.model.fitted_model import FittedModel, SavedModel
from pairloom.pipeline.model.growing_model import grow_fitted_model
from pairloom.pipeline.model.label_doubts import (
    LabelDoubts,
    doubts_of_held_out,
    doubts_of_rows,
    held_out_rows,
    training_classes,
)
from pairloom.pipeline.model.novelty import (
    check_reject,
    novelty_limits,
    novelty_of,
    reject_label_of,
    with_rejected,
)
from pairloom.pipeline.model.prediction import (
    PairMachines,
    odds_of_possible,
    pair_machines,
    possible_classes,
    predict_likeliest,
    predict_probabilities,
)
from pairloom.pipeline.model.prediction_sets import (
    SetBy,
    SetScore,
    check_coverage,
    check_output,
    held_out_of,
    labels_of_sets,
    pool_classes,
    sets_of_probabilities,
)
from pairloom.pipeline.model.rules import ESTIMATOR, check_no_shortlist
from pairloom.pipeline.model.settings import error_prefix
from pairloom.pipeline.model.summary import summary_html, summary_rows
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.threads import one_blas_thread

__all__ = ["PairwiseSVC", "documentation_link", "one_row"]


class PairwiseSVC(ClassifierMixin, BaseEstimator):
    """Multi-class classification by pairs of classes, with probabilities that can be trusted.

    A two-class machine is trained for every edge of a model graph over the classes and calibrated on held-out samples.
    The logits of all machines are then coupled into probabilities, which are calibrated by one scale of the logits: the
    one with the highest likelihood of the coupled model on out-of-fold training samples.

    Parameters
    ----------
    graph : str, mapping, networkx.Graph or array, default="hub_neighbours"
        Which pairs to train: a family's name; its name and parameters, ``{"family": "bipartite", "hubs": 5}``; or a
        connected graph whose nodes are the classes. "hub_neighbours" keeps the accuracy of all pairs at a fraction of
        the cost. It has 20 neighbours per class, or 40 if that clearly improves the out-of-fold coupled log loss, or 60
        if classes overlap. "complete" trains all pairs. See `pairloom.graphs`.

        Or which sets of classes to train against each other [6]_: "one_vs_rest", "dense", "sparse" or "one_vs_one";
        with parameters, ``{"family": "dense", "seed": 1}``; an (N, m) code matrix of -1, 0 and +1, its rows in the
        order of the sorted labels; or its bipartite graph, `pairloom.graphs.model_code`.
    coupling : {"auto", "stratified", "wlw2", "normal", "bradley_terry", "vote", "sign_vote", "linear", "zadrozny", \
            "closed_form"}, default="auto"
        How the logits of the machines become probabilities. For pairs, one of the first seven, see `pairloom.couple`;
        "auto" chooses "stratified", "wlw2" or "bradley_terry" by the log loss of held-out samples. "vote" counts the
        signs of calibrated logits, "sign_vote" those of the decision values, as LIBSVM's `predict` does. For sets of
        classes, "bradley_terry" (which "auto" means) or one of the last three, see `pairloom.couple_code`. The model is
        calibrated for the coupling that it was fitted with; another one may be set later and is used from then on.
    kernel : {"auto", "linear", "rbf", "poly", "sigmoid", "precomputed"}, default="auto"
        The kernel of the machines. "auto" takes "rbf" instead of "linear" if its out-of-fold coupled log loss is lower,
        and then also chooses `gamma` ("scale" stands for a few multiples of it) and `C`; `candidates_` has the table,
        and `kernel_choice_` the reason. With more than 2048 rows, no kernel is tried if a typical pair has fewer rows
        than columns, as with embeddings, or if its kernel matrices would take too long. For "precomputed", X is the
        kernel matrix of the training samples, and at prediction that of the new samples (rows) with all training
        samples (columns, in the order of the fit).
    gamma : "scale", "auto" or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "sigmoid", as in scikit-learn: "scale" is 1 / (D * variance of X),
        "auto" is 1 / D.
    degree : int, default=3
        Degree of the kernel "poly".
    coef0 : float, default=0.0
        Constant of the kernels "poly" and "sigmoid".
    C : float, "scale", "auto", or a list of these, default="auto"
        The penalty of an error. "scale" is 10 / mean squared norm of the centred features (10 for other kernels).
        "auto" chooses between a tenth of that, that and ten times that, for sparse X in half steps. Of several values,
        the one with the lowest out-of-fold coupled log loss is kept; `candidates_` has the table.
    folds : int or "auto", default="auto"
        Folds per class, at least 2. "auto" is 4, or 8 if half of the classes have fewer than 16 samples, and with
        `fit_on="rest"` for machines with a kernel that have at most 8192 samples in all, 16 of each class. A class with
        fewer samples than folds is used to fit all machines and to calibrate none.
    fit_on : {"rest", "fold", "all", "fold_alone"}, default="rest"
        The fold scheme. "rest" fits machine k on all folds but k and calibrates it on k, and averages the machines.
        "fold" does the reverse, which is cheaper. "all" is LIBSVM's way [4]_: one machine on all samples,
        calibrated by cross-validation. "fold_alone" is the protocol of [1]_, e1071's svm on one fold: machine k is
        fitted on fold k, and its columns are standardised and its sigmoid is cross-validated by the same samples. It is
        for linear machines with calibration="platt", standardise=False and whiten="none".
    calibration : {"auto", "distance", "slopes", "platt", "none"}, default="auto"
        How a machine's decision value becomes a logit. "distance" takes the signed distance to the hyperplane, times
        one slope for all pairs, which is the scale of the coupled model. "slopes" gives every pair a slope of its own,
        from a distribution that is estimated from all pairs, so that classes that cannot be separated get even odds.
        "platt" is Platt's sigmoid on held-out samples [5]_. Distances are best if pairs are similar and have tens of
        samples; with hundreds of samples, Platt's sigmoid may be better. "auto" trains the machines once and takes the
        calibration with the lowest out-of-fold coupled log loss; `calibrations_` has the table. "none" uses the
        probabilities of an `estimator` as they are [2]_; with coupled_calibration="none" and without thresholds,
        nothing is then held out, and each pair has one machine, fitted on all of its samples.
    coupled_calibration : {"scale", "edges", "none"}, default="scale"
        The calibration of the coupled model [3]_, from out-of-fold training samples: one scale; a slope and a shift per
        edge as well; or none.
    calibration_samples : int, default=2000
        Maximum number of held-out training samples for `coupled_calibration`, equally many per class.
    learn : {"machines", "coupled"}, default="machines"
        "coupled" continues from the calibrated machines and learns the weights of all of them together, by the
        likelihood of the coupled model [3]_: machines then take the other classes into account, and boundaries may be
        curved. Held-out samples decide when to stop, and whether to start at all; `learned_` has the record. It pays
        off with few features and many samples. Linear machines and couplings other than "vote" only.
    standardise : bool or "auto", default="auto"
        Divide each column by its standard deviation in the training samples; a constant column is only centred. C and
        gamma are then those of standardised features. For columns in different units, such as those of a table;
        embeddings do not need it, and with whitening it makes little difference. "auto" decides by the out-of-fold
        coupled log loss where the standard deviations of columns differ by more than a factor of ten. Not for an
        `estimator`.
    whiten : "auto", "none" or float in [0, 1], default="auto"
        Train linear machines on features whitened by the pooled within-class covariance, shrunk this much towards a
        multiple of the identity. "auto" is 0.8 if that clearly improves the out-of-fold coupled log loss, else "none".
        Whitening is not tried with more columns than rows (less one row per class), or with more than 4096 columns.
    shortlist : int, "auto", "none" or None, default="auto"
        Couple only so many classes of each sample: the likeliest by a ranking of all. The others have the probability
        that the ranking gives them, with a scale and an offset of its own (`list_mass_`), from a fit with lists. "auto"
        is 20 of more than 50 classes, or 40 or 80 where classes overlap and that clearly improves the log loss of all
        held-out samples (`shortlist_`); "none" or None couples all of them.
    machine_weight : {"none", "counts"}, default="none"
        The weight of a machine in the coupling: equal weights, or its number of training samples [2]_ [6]_. For
        coupling="bradley_terry", "normal" (pairs) and "zadrozny" (sets of classes).
    thresholds : bool, default=False
        Shift each pair's logit to the point of fewest errors on held-out samples [2]_.
    estimator : scikit-learn classifier, default=None
        Any two-class learner with decision_function or predict_proba, in place of the SVM; `NearestNeighboursCV`, for
        example.
    priors : array-like of shape (n_classes,) or dict, default=None
        The share of each class in the data to be predicted, if it differs from that in the training samples: in the
        order of `classes_`, or by label. Applied at prediction: `set_params(priors=...)` needs no refit.
    class_weight : dict, "balanced" or None, default=None
        A weight for the samples of each class, for training and calibration, multiplied with `sample_weight`. Not for
        an `estimator`.
    tol : float, default=1e-3
        Duality gap, relative to the objective, at which the training of a machine stops.
    memory_limit : int, default=2**29
        Maximum memory, in bytes per thread, for pairwise logits during prediction.
    n_jobs : int, default=None
        Number of threads; -1 means one per core. None means one, unless `joblib.parallel_config` sets another number.
        The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seeds the folds and the choice of calibration samples. An integer makes fits repeatable. None draws the seed
        from numpy's global generator, as scikit-learn does: two fits then differ.
    verbose : bool, default=False
        Print a progress bar per phase of the fit, with its name and count.

    Attributes
    ----------
    model_ : FittedModel
        The fitted model, immutable. Changes such as `add_class` and `grow` replace it by another one.
    classes_ : (N,) array
        The class labels, sorted.
    class_shares_ : (N,) array
        The share of each class in the training samples.
    graph_ : networkx.Graph
        The model graph, on the indices of the classes; for sets of classes, the bipartite graph of the code.
    edges_ : (E, 2) array
        The trained pairs, as indices into `classes_`.
    code_ : (N, m) array
        The code of machines on sets of classes, which have no `edges_`: a row per class, a column per machine.
    machines_ : Machines, KernelMachines or list
        The trained machines: a `Machines` of arrays for linear ones, a `KernelMachines` for other kernels, and for an
        `estimator` a list of fitted classifiers by edge.
    pairs_ : mapping
        A pair of class labels (a, b) -> `PairMachine`, the logit of a against b; linear machines only.
    C_, whiten_, calibration_, coupling_, scale_ : float, float or "none", str, str, float
        The chosen values.
    list_mass_ : ListMass
        With shortlists: ``ranking``, the scale of the ranking relative to `scale_`, the scale of the list, and
        ``offset``, which is added to the log odds of the list against the rest.
    shortlist_ : int or None
        How many classes of a sample are listed; None where all are coupled.
    learned_ : LearningRecord or None
        The record of learning through the coupling: steps, and log losses before and after. None if
        ``learn="machines"``.
    candidates_ : list of dict
        The candidates that were compared (kernel, gamma, standardise, C, whiten, calibration, log_loss) on a part of
        the samples, if there was a choice.
    kernel_choice_ : str
        Why the machines have their kernel, for kernel="auto"; else empty.
    calibrations_ : list of dict
        The calibrations and couplings that were compared (calibration, coupling, log_loss) on the machines of the
        model, if there was a choice.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    pairloom.couple : probabilities from the logits of all pairs.
    pairloom.graphs : the families of model graphs.
    sklearn.calibration.CalibratedClassifierCV : calibrates one-vs-rest.

    Notes
    -----
    `coupling`, `shortlist`, `priors`, `memory_limit` and `n_jobs` are parameters of prediction: set after a fit, they
    take effect at once. All others take effect at the next fit. The shapes N, R, E, D are explained in
    `pairloom.pipeline`.

    References
    ----------
    .. [1] O. Šuch et al., "Bridging performance gap between minimal and maximal SVM models",
       https://github.com/ondrej-such/svm3 [S].
    .. [2] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
       Processing Systems 10, 507-513 [HT].
    .. [3] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation"
       (in Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
       https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html [I].
    .. [4] T.-F. Wu, C.-J. Lin and R. C. Weng, "Probability estimates for multi-class classification by pairwise
       coupling", JMLR 5 (2004) 975-1005, https://www.jmlr.org/papers/v5/wu04a.html [LW].
    .. [5] H.-T. Lin, C.-J. Lin and R. C. Weng, "A note on Platt's probabilistic outputs for support vector machines",
       Machine Learning 68 (2007) 267-276, doi:10.1007/s10994-007-5018-6 [LW].
    .. [6] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
       individual skill". Advances in Neural Information Processing Systems 17, 601-608 [HLW].

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> PairwiseSVC(random_state=0).fit(X, y).predict_proba(X[:1]).argmax()
    np.int64(0)
    """

    def __init__(
        self,
        graph: str | dict[str, Any] | nx.Graph | NDArray[np.int8] = "hub_neighbours",
        *,
        coupling: str = "auto",
        kernel: str = "auto",
        gamma: Gamma = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        C: float | Literal["auto", "scale"] | list[Any] = "auto",
        folds: int | Literal["auto"] = "auto",
        fit_on: str = "rest",
        calibration: str = "auto",
        coupled_calibration: str = "scale",
        calibration_samples: int = CALIBRATION_SAMPLES,
        learn: str = "machines",
        standardise: bool | Literal["auto"] = "auto",
        whiten: Shrinkage | Literal["auto"] = "auto",
        shortlist: int | Literal["auto", "none"] | None = "auto",
        machine_weight: str = "none",
        thresholds: bool = False,
        estimator: Any = None,
        priors: ArrayLike | Mapping[Any, float] | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-3,
        memory_limit: int = DEFAULT_MEMORY,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.graph = graph
        self.coupling = coupling
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.folds = folds
        self.fit_on = fit_on
        self.calibration = calibration
        self.coupled_calibration = coupled_calibration
        self.calibration_samples = calibration_samples
        self.learn = learn
        self.standardise = standardise
        self.whiten = whiten
        self.shortlist = shortlist
        self.machine_weight = machine_weight
        self.thresholds = thresholds
        self.estimator = estimator
        self.priors = priors
        self.class_weight = class_weight
        self.tol = tol
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Fitting.

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machines of the model graph and calibrate the coupled model.

        Parameters
        ----------
        X : (n, D) array-like or CSR matrix, or (n, n) kernel matrix for kernel="precomputed"
            Training samples.
        y : (n,) array-like
            Labels, of any type that sorts.
        sample_weight : (n,) array-like, default=None
            Per-sample multiplier of C, also used in calibration. Samples with zero weight are ignored. Not for an
            `estimator`.

        Returns
        -------
        self : PairwiseSVC
        """
        check_parameters(self)
        X, y, sample_weight = gathered(X, y, sample_weight)
        samples = training_samples(self, X, y, sample_weight, is_precomputed(self))
        labels, classes = np.unique(samples.y, return_inverse=True)
        if len(labels) < 2:
            raise ValueError(
                f"PairwiseSVC: y must hold at least 2 classes, got one class: {quoted(labels[0])}."
            )
        watched = PrintedProgress() if self.verbose else nullcontext(NO_PROGRESS)
        with watched as progress, one_blas_thread():
            fitted = fit_samples(self, samples, labels, classes, progress)
        # Assigned here and nowhere before: a fit that fails leaves the estimator as it was.
        self.model_, self.n_features_in_ = fitted.model, fitted.model.n_features
        self.candidates_, self.calibrations_ = Records(fitted.candidates), Records(fitted.calibrations)
        self.kernel_choice_ = fitted.why
        self._support_ids: Sequence[Any] = support_ids(fitted.model, row_ids(X, sample_weight), classes)
        _check_feature_names(self, X, reset=True)
        return self

    # Prediction.

    @overload
    def predict_proba(self, X: Any, top_k: None = None, *, classes: Any = None) -> NDArray[np.floating]: ...

    @overload
    def predict_proba(
        self, X: Any, top_k: int, *, classes: Any = None
    ) -> tuple[csr_array, NDArray[np.floating]]: ...

    @keeps_container(probabilities)
    def predict_proba(
        self, X: Any, top_k: int | None = None, *, classes: Any = None
    ) -> NDArray[np.floating] | tuple[csr_array, NDArray[np.floating]]:
        """Probabilities of the classes.

        Parameters
        ----------
        X : (R, D) array-like or CSR matrix, or for kernel="precomputed" (R, n), kernel values with all training samples
            For a dask array or data frame, predictions are lazy. A DataArray keeps all dimensions but the last one.
        top_k : int, optional
            Return the probabilities of only this many of the likeliest classes per sample. With thousands of classes,
            almost all probabilities are close to zero, and all of them may not fit into memory.
        classes : sequence of labels, or (R, N) boolean array, default=None
            The classes that are possible, for all samples or for each of them. Only the pairs among these are coupled,
            as in a model of these classes alone, which is not the same as renormalising their probabilities. Not for
            machines on sets of classes.

        Returns
        -------
        p : (R, N) array
            Columns in the order of `classes_`, zero for classes that are not possible; float32 if X is, else float64.
            With `top_k`, a CSR array.
        rest : (R,) array
            With `top_k`: the total probability of all other classes of a sample.
        """
        X = self._checked_samples(X)
        how: dict[str, Any] = {
            "shortlist": shortlist_of(self),
            "priors": self.priors,
            "possible": possible_classes(self.model_, classes, X.shape[0], "predict_proba"),
            **resources_of(self),
        }
        if top_k is None:
            return predict_probabilities(self.model_, X, self.coupling, **how)
        check_count(type(self).__name__, "top_k", top_k, 1)
        top = predict_likeliest(self.model_, X, top_k, self.coupling, **how)
        return top.sparse(len(self.classes_)), top.rest

    def _checked_samples(self, X: Any) -> Any:
        """Checked samples. Raise if the estimator is not fitted or a parameter of prediction is wrong."""
        check_is_fitted(self)
        check_values(self, "coupling", "shortlist", "memory_limit")
        if self.model_.code is not None:
            check_no_shortlist(self.shortlist, ESTIMATOR)
        accept_sparse = False if is_precomputed(self) else "csr"
        with samples_explained(X, type(self).__name__):
            return validate_data(
                self, X, accept_sparse=accept_sparse, dtype=[np.float64, np.float32], reset=False
            )

    @keeps_container(probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.floating]:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @keeps_container(decisions)
    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """(R, N) log probabilities; for two classes (R,), the log-odds of the second."""
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0]) if len(self.classes_) == 2 else log_p

    @keeps_container(labels)
    def predict(
        self,
        X: Any,
        *,
        classes: Any = None,
        reject: float | None = None,
        reject_by: SetBy = "all",
        reject_label: Any = None,
    ) -> NDArray[Any]:
        """The class with the largest probability.

        Parameters
        ----------
        X, classes : as in `predict_proba`
        reject : float, default=None
            Return `reject_label` for samples that resemble no class. The limit of `novelty` is chosen on the held-out
            samples of the fit, so that this share of the samples of known classes is rejected.
        reject_by : {"all", "class"}, default="all"
            Whether that share holds for all samples together, or for those predicted as each class. Classes with too
            few held-out samples predicted as them, fewer than 19 for 5%, share a limit with the most similar classes.
        reject_label : object, default=None
            By default -1 for labels that are numbers, and "none of these" for names.

        Returns
        -------
        labels : (R,) array
        """
        p = self.predict_proba(X, classes=classes)
        predicted = np.asarray(self.classes_[p.argmax(axis=1)])
        if reject is None:
            return predicted
        reject = check_reject(reject, reject_by, "predict")
        label = reject_label_of(self.classes_, reject_label, "predict")
        scores = held_out_of(self.model_, self.coupling, shortlist_of(self), "predict")
        limits = novelty_limits(self.model_, scores, reject, reject_by, self.priors)
        return with_rejected(predicted, self.novelty(X) > limits[p.argmax(axis=1)], label)

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """How little samples resemble the classes of the fit: higher means more novel.

        Combines how poorly the best class fits, how little it stands out from the others, and how far away the classes
        (or the nearest support vector) are. The weights of these signals were learned from the held-out samples of the
        fit, each scored by the model without its class as an example of a novelty. Samples of an unknown class that
        look like a known one are not detected.

        Parameters
        ----------
        X : as in `predict_proba`

        Returns
        -------
        novelty : (R,) array
            Around zero for samples of the known classes.
        """
        X = self._checked_samples(X)
        scores = held_out_of(self.model_, self.coupling, shortlist_of(self), "novelty")
        return novelty_of(
            self.model_, scores, X, self.coupling, shortlist=shortlist_of(self), **resources_of(self)
        )

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.95,
        *,
        score: SetScore = "lac",
        by: SetBy = "all",
        randomised: bool = True,
        output: Literal["matrix", "labels"] = "matrix",
        classes: Any = None,
    ) -> Any:
        """Sets of classes that contain the true class as often as requested, calibrated on the held-out samples.

        Parameters
        ----------
        X : as in `predict_proba`
        coverage : float, default=0.95
            The share of new samples whose set contains their class: above 0, below 1.
        score : {"lac", "aps", "raps"}, default="lac"
            "lac" gives the smallest sets on average [1]_, and an empty set for a sample that resembles no class. "aps"
            gives larger sets for harder samples [2]_, "raps" the same with fewer unlikely classes in them [3]_.
        by : {"all", "class"}, default="all"
            Whether the coverage holds for all samples together, or for the samples of each class. Classes with too few
            held-out samples, fewer than 19 for 95%, share a threshold with the most similar classes: see
            `pooled_classes`.
        randomised : bool, default=True
            For "aps" and "raps", decide at random whether the last class is in the set. False guarantees at least the
            coverage, but gives sets of dozens of classes if the model is certain about most samples. The random
            decision depends on `random_state` and the position of the row in X.
        output : {"matrix", "labels"}, default="matrix"
            A boolean CSR array (R, N), columns in the order of `classes_`; or a list of an array of labels per sample.
        classes : as in `predict_proba`, default=None
            The classes that are possible. The others are left out of the sets, which keeps the coverage.

        Returns
        -------
        sets : scipy.sparse.csr_array or list of arrays

        Notes
        -----
        The coverage holds for samples from the distribution of the training samples, or with the class shares of
        `priors`, on average over fits. See the guide for the conditions.

        References
        ----------
        .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with bounded error levels",
           Journal of the American Statistical Association 114 (2019) 223-234, doi:10.1080/01621459.2017.1395341.
        .. [2] Y. Romano, M. Sesia and E. Candès, "Classification with valid and adaptive coverage", NeurIPS (2020),
           https://arxiv.org/abs/2006.02544.
        .. [3] A. Angelopoulos, S. Bates, J. Malik and M. Jordan, "Uncertainty sets for image classifiers using
           conformal prediction", ICLR (2021), https://arxiv.org/abs/2009.14193.
        """
        X = self._checked_samples(X)
        check_output(output, "predict_set")
        possible = possible_classes(self.model_, classes, X.shape[0], "predict_set")
        scores = held_out_of(self.model_, self.coupling, shortlist_of(self), "predict_set")
        shortlist, resources = shortlist_of(self), resources_of(self)
        sets = sets_of_probabilities(
            self.model_,
            scores,
            lambda rows: predict_probabilities(
                self.model_, X[rows], self.coupling, shortlist=shortlist, **resources
            ),
            X.shape[0],
            coverage,
            score=score,
            by=by,
            randomised=randomised,
            priors=self.priors,
        )
        if possible is not None:
            sets = sets.multiply(possible).tocsr()
            sets.eliminate_zeros()  # or they would be read as members of the sets
        return sets if output == "matrix" else labels_of_sets(sets, self.classes_)

    def pooled_classes(self, coverage: float = 0.95) -> list[tuple[NDArray[Any], int]]:
        """Which classes share a threshold in ``predict_set(by="class")``, and how many held-out samples they have.

        Parameters
        ----------
        coverage : float, default=0.95

        Returns
        -------
        pools : list of (labels, int)
            If a pool has fewer held-out samples than the coverage needs (19 for 95%), all of its classes are in every
            set.
        """
        check_is_fitted(self)
        coverage = check_coverage(coverage, "pooled_classes")
        scores = held_out_of(self.model_, self.coupling, shortlist_of(self), "pooled_classes")
        pools = pool_classes(self.model_, scores.classes, coverage)
        return [(self.classes_[list(pool.classes)], pool.held_out) for pool in pools]

    def group_proba(
        self, X: Any, groups: Mapping[Any, Any], *, classes: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Probabilities of groups of classes: the sums of the probabilities of their classes.

        Parameters
        ----------
        X, classes : as in `predict_proba`
        groups : mapping
            From every class to the name of its group.

        Returns
        -------
        names : (G,) array of objects
        p : (R, G) array
        """
        p = self.predict_proba(X, classes=classes)
        levels = class_groups(self.classes_, groups, "group_proba")
        return levels.names[1], levels.sums(p, 1)

    def predict_at(self, X: Any, groups: Any, coverage: float = 0.95, *, classes: Any = None) -> GroupAnswers:
        """The class, or the finest group of classes that the model is certain enough about.

        Parameters
        ----------
        X : as in `predict_proba`
        groups : mapping, or list of mappings
            From every class to the name of its group. Several levels go from fine to coarse; each maps from the
            classes, or from the groups of the previous level. The coarsest group is "any", which is always right.
        coverage : float, default=0.95
            The share of new samples whose answer contains their class, calibrated on the held-out samples of the fit:
            for samples from the distribution of the training samples, or with the class shares of `priors`.
        classes : sequence of labels, default=None
            The classes that are possible. The coverage is then that of their samples, calibrated on their held-out
            samples.

        Returns
        -------
        GroupAnswers
            ``name``, ``level`` (0 for a class) and ``p`` of each answer.

        Notes
        -----
        Held-out samples have the probabilities of a model in which all classes are possible. If only some are, these
        are renormalised, also for new samples, so an answer may differ from ``predict(X, classes=classes)``.
        """
        X = self._checked_samples(X)
        levels = class_groups(self.classes_, groups, "predict_at")
        coverage = check_coverage(coverage, "predict_at")
        scores = held_out_of(self.model_, self.coupling, shortlist_of(self), "predict_at")
        odds = odds_of_possible(self.model_, self.priors, classes, "predict_at")
        p = predict_probabilities(
            self.model_, X, self.coupling, shortlist=shortlist_of(self), **resources_of(self)
        )
        return answers_at(levels, p, least_probability(levels, scores, coverage, odds), odds)

    def label_doubts(self, y: ArrayLike, X: Any = None) -> LabelDoubts:
        """Which training labels look wrong: rows whose label another class fits better, the most doubtful first.

        Each row is judged by machines that were not fitted on it. Nothing is trained.

        Parameters
        ----------
        y : (n,) array-like
            The labels of the fit.
        X : (n, D) array-like or CSR matrix, default=None
            The samples of the fit, in the same order: all rows are judged, in bounded memory. Without X, only the
            samples that were held out to calibrate the model, at most `calibration_samples`, are judged, by their
            probabilities.

        Returns
        -------
        LabelDoubts
            The rows, their labels, the classes that fit better, the out-of-fold probabilities of both, and the log odds
            by which rows are ranked. ``by_class()`` counts the doubtful rows of each class.
        """
        check_is_fitted(self)
        classes = training_classes(self.model_, y, "label_doubts")
        if X is None:
            scores = held_out_of(self.model_, self.model_.coupling, self.model_.shortlist, "label_doubts")
            return doubts_of_held_out(scores, held_out_rows(self.model_, classes), self.classes_)
        X = self._checked_samples(X)
        if X.shape[0] != len(classes):
            raise ValueError(
                f"label_doubts: X must have a row for each label, got {X.shape[0]} and {len(classes)}."
            )
        return doubts_of_rows(self.model_, X.__getitem__, classes, self.coupling, n_jobs=self.n_jobs)

    # What the model sees.

    def explain(self, x: Any, a: Any, b: Any, *, classes: Any = None) -> Explanation:
        """Why the model prefers class a to class b, or the reverse, for one sample.

        Parameters
        ----------
        x : (D,) or (1, D) array-like, or row of a data frame
            One sample; for kernel="precomputed", its kernel values with all training samples.
        a, b : labels
            Two different classes.
        classes : sequence of labels, default=None
            The classes that are possible, a and b among them, as in `predict_proba`.

        Returns
        -------
        Explanation
            The pair's own logit and the contributions of the features (of the support vectors, for other kernels) that
            sum to it, the coupled odds, and the effects of all pairs that sum to them. It has a printed form. Samples
            of a data frame, and support vectors from one, are named by its index.
        """
        row = one_row(x, "PairwiseSVC.explain: x")
        X = self._checked_samples(row)
        possible = possible_classes(self.model_, classes, 1, "PairwiseSVC.explain")
        return explain(
            self.model_,
            X,
            a,
            b,
            self.coupling,
            shortlist=shortlist_of(self),
            priors=self.priors,
            possible=None if possible is None else possible.reshape(-1, len(self.classes_))[0],
            names=getattr(self, "feature_names_in_", None),
            support_ids=getattr(self, "_support_ids", ()),
            sample=row.index[0] if hasattr(row, "iloc") else None,
            owner="PairwiseSVC.explain",
        )

    def plot_graph(self, *, ax: Any = None) -> display.GraphDisplay:
        """Draw the model graph, or the code: see `GraphDisplay.from_estimator`."""
        check_is_fitted(self)
        return display.GraphDisplay.from_estimator(self, ax=ax)

    def plot_reliability(
        self, X: Any, y: ArrayLike, *, n_bins: int = 10, ax: Any = None
    ) -> display.ReliabilityDisplay:
        """Draw accuracy against confidence on labelled samples: see `ReliabilityDisplay.from_estimator`."""
        return display.ReliabilityDisplay.from_estimator(self, X, y, n_bins=n_bins, ax=ax)

    def plot_confusion(
        self, X: Any, y: ArrayLike, *, order: Literal["auto", "cluster", "labels"] = "auto", ax: Any = None
    ) -> display.ConfusionDisplay:
        """Draw which classes are confused: see `ConfusionDisplay.from_estimator`."""
        return display.ConfusionDisplay.from_estimator(self, X, y, order=order, ax=ax)

    # scikit-learn asks for the HTML of a notebook by this name, and so that its own configuration decides.
    def _html_repr(self) -> str:
        rows = summary_rows(self.model_) if hasattr(self, "model_") else []
        title = "PairwiseSVC" if rows else "PairwiseSVC, not fitted"
        return summary_html(rows, title, documentation_link()) + str(super()._html_repr())

    # The fitted model.

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels, sorted."""
        return self.model_.classes.labels

    @property
    def class_shares_(self) -> NDArray[np.float64]:
        """The share of each class in the training samples."""
        return self.model_.classes.shares

    @property
    def graph_(self) -> nx.Graph:
        """The model graph, on the indices of the classes; for sets of classes, the bipartite graph of the code."""
        code = self.model_.code
        return self.model_.pairs if code is None else graphs.code_graph(code.matrix)

    @property
    def edges_(self) -> NDArray[np.int64]:
        """(E, 2) trained pairs, as indices into `classes_`."""
        return self.model_.edges

    @property
    def code_(self) -> NDArray[np.int8]:
        """(N, m) code of machines on sets of classes."""
        if self.model_.code is None:
            raise AttributeError("PairwiseSVC: code_ is for machines on sets of classes: see edges_.")
        return self.model_.code.matrix

    @property
    def C_(self) -> float:
        """The C that the machines were trained with."""
        return self.model_.C

    @property
    def whiten_(self) -> Shrinkage:
        """The shrinkage of the whitening, or "none"."""
        return self.model_.whiten

    @property
    def calibration_(self) -> str:
        """How the decision values of the machines become logits: "distance", "slopes", "platt" or "none"."""
        return self.model_.settings.calibration

    @property
    def coupling_(self) -> str:
        """The coupling that the model was calibrated for, and that `coupling="auto"` predicts with."""
        return self.model_.coupling

    @property
    def scale_(self) -> float:
        """The scale of the coupled model."""
        return self.model_.coupled.scale

    @property
    def list_mass_(self) -> ListMass:
        """How the classes of a shortlist and the others share the probability."""
        return self.model_.coupled.mass

    @property
    def shortlist_(self) -> int | None:
        """How many classes of a sample are listed; None where all are coupled."""
        return self.model_.list_size("auto")

    @property
    def learned_(self) -> LearningRecord | None:
        """The record of learning through the coupling, or None."""
        return None if self.model_.learned is None else self.model_.learned.record

    @property
    def machines_(self) -> Machines | KernelMachines | list[PairEstimators]:
        """The trained machines: arrays for linear ones and those with a kernel, else a list of classifiers by edge."""
        machines: Machines | KernelMachines | list[PairEstimators] = self.model_.trained.machines
        return machines

    @property
    def pairs_(self) -> PairMachines:
        """Mapping of a pair of class labels (a, b) to the logit of a against b, for linear machines."""
        return pair_machines(self.model_)

    # Changes that leave all other machines as they are.

    def add_class(
        self, label: Any, X_new: Any, X: Any, y: ArrayLike, *, neighbours: int | None = None
    ) -> Self:
        """Add a class: train its edges to the hubs and to its nearest classes, nothing else.

        Parameters
        ----------
        label : object
            The new class's label, of the type of the others.
        X_new : (n, D) array-like
            Samples of the new class.
        X, y : array-like
            The samples of the fit, in the same order: the new pairs are trained on those of the old classes.
        neighbours : int, default=None
            Number of nearest classes to join; by default the number given to the graph's family, else 20.

        Returns
        -------
        self : PairwiseSVC
        """
        check_is_fitted(self)
        with error_prefix("add_class: X_new must have the features of the fit"):
            _check_feature_names(self, X_new, reset=False)
        self.model_ = add_class(self.model_, label, X_new, X, y, neighbours=neighbours, n_jobs=self.n_jobs)
        return self

    def remove_class(self, label: Any) -> Self:
        """Remove a class. Nothing is trained. The graph must stay connected: the only hub of a star cannot be removed.

        Parameters
        ----------
        label : object
            One of `classes_`.

        Returns
        -------
        self : PairwiseSVC
        """
        check_is_fitted(self)
        self.model_ = remove_class(self.model_, label)
        return self

    def retrain_pairs(
        self,
        pairs: Iterable[tuple[Any, Any]],
        X: Any,
        y: ArrayLike,
        *,
        C: float | None = None,
        tol: float | None = None,
    ) -> Self:
        """Train chosen pairs again with other parameters.

        Parameters
        ----------
        pairs : iterable of pairs of class labels
            Each an edge of the graph.
        X, y : array-like
            The samples of the fit, in the same order.
        C, tol : float, default=None
            The new values; by default those of the fit.

        Returns
        -------
        self : PairwiseSVC
        """
        check_is_fitted(self)
        self.model_ = retrain_pairs(self.model_, pairs, X, y, C=C, tol=tol, n_jobs=self.n_jobs)
        return self

    def grow(
        self,
        X: Any,
        y: ArrayLike,
        *,
        cost: GrowthCost | Callable[[Any, Any], float] = "confusion",
        wave: int | None = None,
        pairs: int | None = None,
        share: float | None = None,
        seconds: float | None = None,
        plateau: float | Literal["never"] = 0.01,
    ) -> Iterator[Wave]:
        """Train more pairs, the most valuable first, until a budget is used up or the log loss no longer improves.

        Each step of the iterator trains a wave of pairs, chooses the scale again and reports the out-of-fold log loss;
        the first step trains nothing. Between two steps the model can be used, and the caller may stop at any time.

        Parameters
        ----------
        X, y : array-like
            The samples of the fit, in the same order.
        cost : {"confusion", "dprime", "uniform"} or callable, default="confusion"
            Which pairs come first: those that the model confuses most, those with the lowest d', a random order, or
            those with the lowest value of a function of two labels.
        wave : int, default=None
            Pairs added at a time; by default a fifth of the current pairs, at least one per class.
        pairs : int, default=None
            Budget: maximum number of pairs.
        share : float, default=None
            Budget: maximum share of all pairs.
        seconds : float, default=None
            Budget: maximum time of growing, in seconds. A wave that has started is finished.
        plateau : float or "never", default=0.01
            Stop when two waves in a row improve the log loss by less than this share of it.

        Yields
        ------
        wave : Wave
            ``pairs``, ``scale``, ``log_loss``, ``accuracy``, ``proposed``, the pairs of the next wave, and ``mass``, as
            in `list_mass_`.
        """
        check_is_fitted(self)
        budget = GrowthBudget(pairs, share, seconds, plateau)
        grown = grow_fitted_model(self.model_, X, y, cost, wave, budget, resources_of(self))
        return self._adopted(grown, self.model_)

    def _adopted(self, grown: Iterator[tuple[Wave, FittedModel]], expected: FittedModel) -> Iterator[Wave]:
        """Put the model of each step in place, unless another one was put there since the step before."""
        while True:
            if self.model_ is not expected:
                raise RuntimeError(
                    "grow: the model must stay as it is between two waves, got one that was fitted, grown or changed"
                    " since: call grow again."
                )
            step = next(grown, None)
            if step is None:
                return
            wave, expected = step
            self.model_ = expected
            yield wave

    # On disk.

    def save(self, path: str | Path | StoreUrl, *, overwrite: bool = False, compact: bool = False) -> None:
        """Write the fitted model into a folder: arrays in zarr, the rest in JSON. Not for an `estimator`.

        Parameters
        ----------
        path : str or Path
            The folder, or a URL such as ``s3://bucket/model``. It appears complete or not at all.
        overwrite : bool, default=False
            Replace an existing saved model: only its own files. At every moment the folder holds a complete model, the
            old or the new.
        compact : bool, default=False
            Write only what prediction needs, about a quarter of the size. Such a model predicts the same bits, but
            cannot be grown, and its classes and pairs cannot be changed.
        """
        from pairloom.pipeline.model.saved_model import save_model

        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", np.array([])).tolist()
        compared = (self.candidates_, self.calibrations_, self.kernel_choice_)
        saved = SavedModel(
            self.model_, self.get_params(deep=False), *compared, names, getattr(self, "_support_ids", ())
        )
        save_model(saved, path, overwrite=overwrite, compact=compact)

    @classmethod
    def load(cls, path: str | Path | StoreUrl) -> Self:
        """Read a model that `save` has written. Runs no code from the folder.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        PairwiseSVC
        """
        from pairloom.pipeline.model.saved_model import load_model, whole_model

        saved = load_model(path)
        with whole_model(f"PairwiseSVC.load: {path}"):
            return cls._of(saved)

    @classmethod
    def from_run(
        cls, directory: str | Path | StoreUrl, *, coupling: str | None = None, compact: bool | None = None
    ) -> Self:
        """A finished run as an estimator. Its predictions are those of ``pairloom predict``, to the bit.

        Parameters
        ----------
        directory : str or Path
            The run directory: a path, or a URL such as ``s3://bucket/run``.
            Every file that is read is compared with the checksum that the run recorded.
        coupling : str, default=None
            One of the run's couplings; by default its first, ``model.coupling`` in its configuration.
        compact : bool, default=None
            Read only what prediction needs, about a quarter of the size: such a model cannot be grown, and classes
            cannot be added or removed. By default, True for runs that store this separately, as runs of many classes
            do.

        Returns
        -------
        PairwiseSVC
        """
        from pairloom.pipeline.model.saved_model import whole_model
        from pairloom.pipeline.run.run_model import read_run_model

        saved = read_run_model(directory, coupling, compact=compact)
        with whole_model(f"PairwiseSVC.from_run: {directory}"):
            return cls._of(saved)

    @classmethod
    def _of(cls, saved: SavedModel) -> Self:
        estimator = cls(**saved.parameters)
        estimator.model_ = saved.model
        estimator.candidates_, estimator.calibrations_ = (
            Records(saved.candidates),
            Records(saved.calibrations),
        )
        estimator.kernel_choice_ = saved.kernel_choice
        estimator.n_features_in_, estimator._support_ids = saved.model.n_features, saved.support_ids
        if saved.feature_names:
            if len(saved.feature_names) != saved.model.n_features:
                raise ValueError(
                    f"stored feature_names must be {saved.model.n_features}, got {len(saved.feature_names)}."
                )
            estimator.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = (
            takes_sparse(self) if self.estimator is None else get_tags(self.estimator).input_tags.sparse
        )
        tags.input_tags.pairwise = is_precomputed(self)
        return tags


_DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Of a checkout: the page as `.ci/docs` builds it, or its source.
_PAGES = (_DOCS / "_build" / "html" / "parameters.html", _DOCS / "parameters.md")


def documentation_link() -> str:
    """The address of the documentation, for notebooks; empty if there is none.

    A released package has the address in its metadata. A checkout has the pages beside the code.
    """
    try:
        addresses = metadata("pairloom").get_all("Project-URL") or []
    except PackageNotFoundError:
        addresses = []
    for address in addresses:
        name, _, url = str(address).partition(",")
        if name.strip().lower() == "documentation":
            return url.strip()
    return next((page.as_uri() for page in _PAGES if page.is_file()), "")


def one_row(x: Any, owner: str) -> Any:
    """(1, D) the sample, with the names of its features if it has any. Raise an error unless it is one sample.

    Examples
    --------
    >>> one_row([1.0, 2.0], "x").shape
    (1, 2)
    """
    if hasattr(x, "iloc") and getattr(x, "ndim", 0) == 1:
        return x.to_frame().T  # the row of a data frame
    if hasattr(x, "shape") and len(x.shape) == 2:
        rows: Any = x  # matrices, sparse ones too, and data frames
    else:
        values = np.asarray(x)
        rows = values[None] if values.ndim == 1 else values
    if len(rows.shape) != 2 or rows.shape[0] != 1:
        raise ValueError(
            f"{owner} must be one sample, of shape (n_features,) or (1, n_features), got shape {rows.shape}:"
            " explain samples one by one."
        )
    return rows
