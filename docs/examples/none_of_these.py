"""
None of these
=============

A classifier predicts one of its classes even for samples of unknown ones. `novelty` is higher for samples that resemble
no class, and `predict(X, reject=0.05)` returns -1 above a limit that 5% of the samples of known classes exceed, too.
Neither needs samples of unknown classes.
"""

# %%
# A model of the digits 0 to 7 meets eights and nines.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC

X, y = load_digits(return_X_y=True)
known = y < 8
X_train, X_test, y_train, y_test = train_test_split(
    X[known], y[known], test_size=0.5, stratify=y[known], random_state=0
)
X_unknown = X[~known]
model = PairwiseSVC(random_state=0).fit(X_train, y_train)

# %%
# Novelty
# -------
# It is around zero for known classes. The usual signal, the largest probability, serves as a comparison.
scores = {
    "novelty": (model.novelty(X_test), model.novelty(X_unknown)),
    "largest probability": tuple(1 - model.predict_proba(some).max(axis=1) for some in (X_test, X_unknown)),
}
for name, (of_known, of_unknown) in scores.items():
    is_unknown = np.repeat([False, True], [len(of_known), len(of_unknown)])
    print(f"{name:20s} AUROC {roc_auc_score(is_unknown, np.r_[of_known, of_unknown]):.3f}")

fig, axes = plt.subplots(figsize=(6, 3), layout="constrained")
bins = np.linspace(-4, 12, 49)
for some, label in zip(scores["novelty"], ("digits 0 to 7", "eights and nines"), strict=True):
    axes.hist(np.clip(some, -4, 12), bins, density=True, alpha=0.6, label=label)
axes.set(xlabel="novelty", ylabel="density of the samples")
axes.legend()

# %%
# Rejection
# ---------
# The share applies to known samples. How many unknown ones are rejected depends on how much they resemble the classes.
for share in (0.01, 0.05, 0.1):
    of_known, of_unknown = (model.predict(some, reject=share) == -1 for some in (X_test, X_unknown))
    print(f"reject={share}: {of_known.mean():.1%} of known digits, {of_unknown.mean():.1%} of unknown ones")

# %%
# Predictions of the remaining known digits are more often right. `reject_by="class"` sets a limit per predicted class.
answers = model.predict(X_test, reject=0.05, reject_by="class")
kept = answers != -1
print(
    f"right: {model.score(X_test, y_test):.1%} of all, {np.mean(answers[kept] == y_test[kept]):.1%} of those kept"
)

# %%
# Top row: the known digits with the highest novelty. Bottom row: the unknown digits with the lowest.
strangest, passing = np.argsort(-scores["novelty"][0])[:6], np.argsort(scores["novelty"][1])[:6]
fig, panels = plt.subplots(2, 6, figsize=(8, 3), layout="constrained")
for axes, picture in zip(panels.flat, np.r_[X_test[strangest], X_unknown[passing]], strict=True):
    axes.imshow(picture.reshape(8, 8), cmap="gray_r")
    axes.set_axis_off()
