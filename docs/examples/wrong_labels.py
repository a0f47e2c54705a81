"""
Labels that look wrong
======================

`label_doubts` ranks the training rows by how doubtful their labels are. Every row is judged by machines that were not
fitted on it, so a wrong label cannot support itself, and nothing has to be fitted again.
"""

# %%
# Digits, with 3% of the labels changed.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

from pairloom import PairwiseSVC

X, y_true = load_digits(return_X_y=True)
random = np.random.default_rng(0)
wrong = random.random(len(y_true)) < 0.03
y = np.where(wrong, (y_true + random.integers(1, 10, len(y_true))) % 10, y_true)

model = PairwiseSVC(random_state=0).fit(X, y)
doubts = model.label_doubts(y, X)
print(doubts)

# %%
# The most doubtful rows come first
# ---------------------------------
first = doubts.row[: wrong.sum()]
better = doubts.better[: wrong.sum()]
print(f"{wrong[first].mean():.0%} of the {wrong.sum()} most doubtful labels are wrong", end="; ")
print(f"for {np.mean(better == y_true[first]):.0%} the better class is the true one")
ranked = np.empty(len(y))
ranked[doubts.row] = np.arange(len(y), 0, -1)
print(f"average precision of the ranking: {average_precision_score(wrong, ranked):.3f}")

# %%
# A doubtful label is not a wrong one: look at the rows before you change them.
fig, panels = plt.subplots(2, 6, figsize=(8, 4), layout="constrained")
shown = np.r_[0:6, wrong.sum() - 6 : wrong.sum()]
for axes, place in zip(panels.flat, shown, strict=True):
    axes.imshow(X[doubts.row[place]].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"label {doubts.label[place]},\nrather {doubts.better[place]}", fontsize=9)
    axes.set_axis_off()

# %%
# By class
# --------
# For each label, how many of its rows another class fits better.
for label, (judged, doubted) in doubts.by_class().items():
    print(f"{label}: {doubted} of {judged}")

# %%
# Without the samples
# -------------------
# Without X, only the rows that were held out to calibrate the model are judged. Here these are all rows.
held_out = model.label_doubts(y)
print(f"{len(held_out.row)} rows, {wrong[held_out.row[: wrong.sum()]].mean():.0%} of the first are wrong")
