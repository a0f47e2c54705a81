"""
Adding and removing classes
===========================

Each machine separates two classes only. A new class needs machines for its own pairs; all others stay unchanged, to
the byte.
"""

# %%
# Add a class
# -----------
# A model of the digits 0 to 8 gets the nines.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
old = y_train != 9

model = PairwiseSVC("complete", random_state=0, kernel="linear").fit(X_train[old], y_train[old])
before = {pair: machine.weights for pair, machine in model.pairs_.items()}
print(f"{len(before)} pairs of {len(model.classes_)} classes, accuracy {model.score(X_test, y_test):.3f}")

# %%
# `add_class` takes samples of the new class and those of the fit, since the new pairs need both. (The digits are so
# few that the times below say little; the guide has those of 150 classes.)
began = time.perf_counter()
model.add_class(9, X_train[~old], X_train[old], y_train[old])
print(f"added in {time.perf_counter() - began:.2f} s: {len(model.edges_)} pairs, accuracy", end=" ")
print(f"{model.score(X_test, y_test):.3f}")

unchanged = [np.array_equal(model.pairs_[pair].weights, weights) for pair, weights in before.items()]
print(f"unchanged machines: {sum(unchanged)} of {len(unchanged)}")

# %%
# As good as a new fit?
# ---------------------
anew = PairwiseSVC("complete", random_state=0, kernel="linear").fit(X_train, y_train)
print(f"fitted anew: accuracy {anew.score(X_test, y_test):.3f}")

fig, panels = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharey=True)
for axes, (name, fitted) in zip(panels, {"class added": model, "fitted anew": anew}.items(), strict=True):
    p = fitted.predict_proba(X_test)
    axes.hist(p[np.arange(len(p)), y_test], bins=20, range=(0, 1))
    axes.set(xlabel="probability of the true class", title=name, yscale="log")
panels[0].set_ylabel("test samples")

# %%
# Remove a class
# --------------
# Nothing is trained. Probabilities are those among the remaining classes.
model.remove_class(0)
print("classes:", model.classes_.tolist())
