"""
Acting on probabilities
=======================

Sets that hold the true class, none of these, only these classes, groups, and labels that look wrong: all from one fit,
calibrated on the samples that it held out.
"""

# %%
# A model of the digits 0 to 8, with some wrong labels. The nines are unknown to it.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC

X, y = load_digits(return_X_y=True)
nines, X, y = X[y == 9], X[y < 9], y[y < 9]
X_train, X_test, y_true, y_test = train_test_split(X, y, stratify=y, random_state=0)
random = np.random.default_rng(0)
wrong = random.random(len(y_true)) < 0.03
y_train = np.where(wrong, (y_true + random.integers(1, 9, len(y_true))) % 9, y_true)

model = PairwiseSVC(random_state=0).fit(X_train, y_train)

# %%
# A set of classes that holds the true one
# ----------------------------------------
# As often as is asked for, on average over samples that are drawn as those of the fit.
# (The wrong labels are among the held-out samples: no set can promise more than 97%.)
for coverage in (0.8, 0.9, 0.95):
    sets = model.predict_set(X_test, coverage).toarray()
    held = sets[np.arange(len(y_test)), y_test].mean()
    print(f"{coverage:.0%}: holds the true class {held:.1%}, mean size {sets.sum(axis=1).mean():.2f}")

# %%
# None of these
# -------------
# `novelty` is higher for samples that are like no class, and `predict` rejects so many that 5% of known samples go too.
known, strange = model.predict(X_test, reject=0.05), model.predict(nines, reject=0.05)
print(f"rejected: {np.mean(known == -1):.1%} of known digits, {np.mean(strange == -1):.1%} of nines")

# %%
# Only these
# ----------
# The pairs among the possible classes are coupled, as in a model of these alone.
even = [0, 2, 4, 6, 8]
is_even = np.isin(y_test, even)
for name, classes in (("all digits", None), ("even digits", even)):
    right = model.predict(X_test[is_even], classes=classes) == y_test[is_even]
    print(f"{name} possible: {right.mean():.1%} of even digits are right")

# %%
# The group when the class is not sure
# ------------------------------------
# Digits with a closed loop, and the others. The deepest group that is sure enough is answered.
groups = {c: "loop" if c in (0, 6, 8) else "no loop" for c in range(9)}
answers = model.predict_at(X_test, groups, coverage=0.96)
for level, name in enumerate(("a class", "a group", "any")):
    print(f"{name}: {np.mean(answers.level == level):.1%}")

# %%
# Labels that look wrong
# ----------------------
# Every training row is judged by machines that were not fitted on it.
doubts = model.label_doubts(y_train, X_train)
first = doubts.row[: wrong.sum()]
print(f"{wrong[first].mean():.0%} of the {wrong.sum()} most doubtful labels are wrong;", end=" ")
print(f"for {np.mean(doubts.better[: wrong.sum()] == y_true[first]):.0%} the better class is the true one")
