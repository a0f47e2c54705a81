"""
Sets that contain the true class
================================

Where the class is uncertain, a set of classes can be returned that contains the true one as often as you ask for. Sets
are calibrated on samples that the fit has held out, so no data need to be set aside.
"""

# %%
# Thirty classes, from easy to hard.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC

X, y = make_blobs([200] * 30, n_features=8, cluster_std=np.linspace(2, 8, 30), random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
model = PairwiseSVC(random_state=0).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.3f}")


def covered(sets):
    """Which sets contain the true class."""
    return sets.toarray()[np.arange(len(y_test)), y_test]


# %%
# As often as you ask for
# -----------------------
# The coverage is an average over samples from the distribution of the training samples.
for coverage in (0.8, 0.9, 0.95, 0.99):
    sets = model.predict_set(X_test, coverage)
    size = sets.nnz / len(y_test)
    print(f"{coverage:.0%}: contains the true class {covered(sets).mean():.1%}, mean size {size:.2f}")

# %%
# The sets are rows of a boolean matrix, or lists of labels.
for labels, true in zip(model.predict_set(X_test[:5], 0.9, output="labels"), y_test, strict=False):
    print(labels, "the true class is", true)

# %%
# Small sets, or sets whose size shows the difficulty
# ---------------------------------------------------
# `score="lac"`, the default, has the smallest sets. With `"aps"` and `"raps"`, hard samples have larger ones.
for score in ("lac", "aps", "raps"):
    size = model.predict_set(X_test, 0.9, score=score).sum(axis=1)
    print(
        f"{score:4s} mean size {size.mean():.2f}, of the ten easiest classes {size[y_test < 10].mean():.2f}",
        end="",
    )
    print(f", of the ten hardest {size[y_test >= 20].mean():.2f}")

# %%
# Coverage per class
# ------------------
# On average over all samples, easy classes make up for hard ones. `by="class"` promises the coverage for every class.
fig, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for by, marker in (("all", "o"), ("class", "s")):
    found = covered(model.predict_set(X_test, 0.9, by=by))
    axes.plot([found[y_test == c].mean() for c in range(30)], marker, label=f'by="{by}"')
axes.axhline(0.9, color="grey", linestyle=":")
axes.set(xlabel="class", ylabel="share of sets with the true class")
axes.legend()

# %%
# This needs held-out samples of every class: 19 for 95%, and 99 for 99%. Classes with fewer share a threshold with the
# most similar ones.
for coverage in (0.95, 0.99):
    pools = model.pooled_classes(coverage)
    print(
        f"{coverage:.0%}: {len(pools)} pools, the largest of {max(len(labels) for labels, _ in pools)} classes"
    )
