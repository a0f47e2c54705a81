"""PairwiseSVC against scikit-learn's classifiers with probabilities: accuracy, log loss, calibration and time.

    python -m pairloom.benchmarks.pairwise [--quick] [--data NAME]

The split that comes with the data, one thread, kernels compiled before. "fit" and "predict" are seconds; "predict" is
of probabilities. "calibration" is the expected calibration error in 15 bins.

- PairwiseSVC has its defaults.
- Text embeddings have unit norm and are given to all models as they are. The peers have C=1, scikit-learn's default;
  LogisticRegression has C=10 and max_iter=300.
- Image features are standardised for the peers, column by column on the training part, since LogisticRegression does
  not converge otherwise. All peers have C = 10 / features, which is what C="scale" means for standardised features.
- Where the data are absent, digits take their place.
"""

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import DataNotFound, path_of
from pairloom.pipeline.report.evaluation import scores

DATA = ("clinc150-minilm", "tinyimagenet50-efficientnet", "imagenette-efficientnet")
OURS = ("hub_neighbours", "complete")
CLASSES, SAMPLES, FEATURES, MOST_BYTES = 1000, 10_000, 64, 2e9


class Split(NamedTuple):
    """Training and test samples with their labels, in the order of `train_test_split`."""

    X: NDArray[np.float32]
    X_new: NDArray[np.float32]
    y: NDArray[Any]
    y_new: NDArray[Any]


class Measured(NamedTuple):
    """How good and how fast a model is on one split. Times are in seconds."""

    accuracy: float
    log_loss: float
    calibration: float
    fit: float
    predict: float

    @property
    def seconds(self) -> float:
        """Time to fit and to predict."""
        return self.fit + self.predict


class Target(NamedTuple):
    """A value with the bound that it must not be above (``at_most``) or below."""

    what: str
    value: float
    bound: float
    at_most: bool

    @property
    def met(self) -> bool:
        """Whether the value is on the right side of its bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound


def load(name: str, quick: bool) -> Split:
    """A set of features by its name. Quick: its first 12 classes only."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return Split(*train_test_split(X.astype(np.float32), y, test_size=0.4, random_state=0, stratify=y))
    with np.load(path_of(f"{name}.npz")) as data:
        X, X_new, y, y_new = (data[key] for key in ("X_train", "X_test", "y_train", "y_test"))
    if quick:
        X, y, X_new, y_new = X[y < 12], y[y < 12], X_new[y_new < 12], y_new[y_new < 12]
    return Split(X.astype(np.float32), X_new.astype(np.float32), y, y_new)


def models(text: bool, n_features: int) -> dict[str, Any]:
    """Classifiers by the name of their row in the table: ours first, then the peers."""

    def standardised(model: Any) -> Any:
        return model if text else make_pipeline(StandardScaler(), model)

    C = 1.0 if text else 10 / n_features
    logistic = LogisticRegression(C=10 * C if text else C, max_iter=300)
    ours = {f"PairwiseSVC({graph})": PairwiseSVC(graph, random_state=0) for graph in OURS}
    return ours | {
        "SVC(probability)": standardised(SVC(kernel="linear", C=C, probability=True, random_state=0)),
        "CalibratedClassifierCV(LinearSVC)": standardised(CalibratedClassifierCV(LinearSVC(C=C))),
        "LogisticRegression": standardised(logistic),
    }


def measure(model: Any, split: Split) -> Measured:
    """Fit a model, predict the test samples, and score the probabilities."""
    start = time.perf_counter()
    model.fit(split.X, split.y)
    middle = time.perf_counter()
    p = model.predict_proba(split.X_new)
    end = time.perf_counter()
    found = scores(p, np.searchsorted(model.classes_, split.y_new))
    return Measured(*found, fit=middle - start, predict=end - middle)


def compare(name: str, quick: bool) -> dict[str, Measured]:
    """Measure all models on one set and print its table."""
    split = load(name, quick)
    (n, n_features), n_new = split.X.shape, len(split.X_new)
    print(f"\n{name}: {len(np.unique(split.y))} classes, {n} and {n_new} samples, {n_features} features")
    print(f"{'':36s} accuracy  log loss  calibration     fit  predict")
    found = {}
    for title, model in models("minilm" in name, n_features).items():
        row = found[title] = measure(model, split)
        ours = isinstance(model, PairwiseSVC)
        chosen = f"  {len(model.edges_)} pairs, whiten={model.whiten_}" if ours else ""
        print(
            f"{title:36s} {row.accuracy:8.4f} {row.log_loss:9.4f} {row.calibration:12.4f} {row.fit:7.1f}"
            f" {row.predict:8.2f}{chosen}",
            flush=True,
        )
    return found


def targets(name: str, found: dict[str, Measured]) -> Iterator[Target]:
    """The bounds that the models of one set must keep."""
    hub, complete, svc, calibrated, logistic = found.values()
    ours = {"hub_neighbours": hub, "complete": complete}
    if name == "clinc150-minilm":
        yield Target("complete: accuracy", complete.accuracy, 0.958, at_most=False)
        yield Target("complete: log loss", complete.log_loss, 0.20, at_most=True)
        yield Target("hub_neighbours: accuracy", hub.accuracy, 0.955, at_most=False)
        yield Target("hub_neighbours: log loss", hub.log_loss, 0.22, at_most=True)
        for title, row in ours.items():
            for peer, other, least in (("SVC", svc, 5), ("LogisticRegression", logistic, 1)):
                faster = other.seconds / row.seconds
                yield Target(f"{title}: times faster than {peer}", faster, least, at_most=False)
    else:
        peers = {"SVC": svc, "LinearSVC": calibrated, "LogisticRegression": logistic}
        for peer, other in peers.items():
            for title, row in ours.items():
                yield Target(f"{title}: log loss, {peer}'s", row.log_loss, other.log_loss, at_most=True)


def print_target(target: Target) -> None:
    """Print a value, its bound, and whether it was kept."""
    relation, verdict = "<=" if target.at_most else ">=", "OK" if target.met else "missed"
    print(f"  {target.what:48s} {target.value:8.4f}, target {relation} {target.bound:.4f}: {verdict}")


def predict_many_classes() -> None:
    """Fit 1000 classes with 4 samples each, predict 10,000 samples, and print the seconds and the peak memory."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    y = np.repeat(np.arange(CLASSES), 4)
    X = means[y] + 0.5 * rng.standard_normal((len(y), FEATURES), dtype=np.float32)
    model = PairwiseSVC(whiten="none", coupled_calibration="none", random_state=0).fit(X, y)
    X_new = np.repeat(means, SAMPLES // CLASSES, axis=0)
    start = time.perf_counter()
    model.predict_proba(X_new)
    seconds = time.perf_counter() - start
    print(len(model.edges_), seconds, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def measure_memory() -> None:
    """Print the peak memory of a process of its own, from the import to the last probability."""
    command = [sys.executable, "-m", "pairloom.benchmarks.pairwise", "--many-classes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    edges, seconds, most = done.stdout.split()[-3:]
    print(f"\n{CLASSES} classes, {edges} pairs of hub_neighbours, {SAMPLES} samples: {float(seconds):.1f} s")
    print_target(Target("GB at the peak of the process", float(most) / 1e9, MOST_BYTES / 1e9, at_most=True))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="12 classes of each set: no targets, no memory")
    parser.add_argument("--data", choices=(*DATA, "digits"), help="one of the sets only")
    parser.add_argument("--many-classes", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    # scikit-learn is about to remove SVC(probability=True), one of the peers.
    warnings.simplefilter("ignore", FutureWarning)
    if chosen.many_classes:
        predict_many_classes()
        return
    measure(PairwiseSVC("complete"), load("digits", quick=False))  # compiles
    for name in [chosen.data] if chosen.data else DATA:
        try:
            found = compare(name, chosen.quick)
        except DataNotFound as reason:
            print(f"\n{name}: {reason}")
            found = compare(name := "digits", chosen.quick)
        if not chosen.quick:
            for target in targets(name, found):
                print_target(target)
    if not chosen.quick:
        measure_memory()


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
