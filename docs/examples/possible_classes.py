"""
Only these classes
==================

Often it is known which classes are possible, from a form, a calendar or a stock list. `predict_proba(X, classes=...)`
couples the pairs among the possible classes, as in a model that was trained on these alone. Nothing is fitted again.
"""

# %%
# Digits with added noise, so that some are confused.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 6, X.shape)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = PairwiseSVC(random_state=0).fit(X_train, y_train)

# %%
# The same for all samples
# ------------------------
# The first digit of a day of the month is 0 to 3. Renormalising the probabilities of all classes gives other results,
# often about as good. A model of these four classes alone would have to be fitted.
possible = [0, 1, 2, 3]
days, digits = np.isin(y_test, possible), X_test[np.isin(y_test, possible)]
everything = model.predict_proba(digits)[:, possible]
alone = PairwiseSVC(random_state=0).fit(
    X_train[np.isin(y_train, possible)], y_train[np.isin(y_train, possible)]
)
for name, p in {
    "all ten classes": everything,
    "renormalised": everything / everything.sum(axis=1, keepdims=True),
    "only these, coupled": model.predict_proba(digits, classes=possible)[:, possible],
    "a model of these": alone.predict_proba(digits),
}.items():
    true = p[np.arange(len(p)), y_test[days]]
    print(f"{name:21s} log loss {-np.log(true).mean():.3f}")

# %%
# Different classes per sample
# ----------------------------
# A boolean mask has a row per sample. Here it is known whether each digit is even.
mask = np.equal.outer(y_test % 2, model.classes_ % 2)
for name, p in {
    "all": model.predict_proba(X_test),
    "masked": model.predict_proba(X_test, classes=mask),
}.items():
    print(
        f"{name:6s} accuracy {accuracy_score(y_test, p.argmax(axis=1)):.3f}, log loss {log_loss(y_test, p):.3f}"
    )

# %%
# Prediction sets lose the classes that are not possible and keep their coverage.
for name, sets in {
    "all": model.predict_set(X_test, 0.95),
    "masked": model.predict_set(X_test, 0.95, classes=mask),
}.items():
    covered = sets.toarray()[np.arange(len(y_test)), y_test].mean()
    print(f"{name:6s} contain the true class {covered:.1%}, mean size {sets.nnz / len(y_test):.2f}")

# %%
# Why this one?
# -------------
# `explain` takes the possible classes, too. Only pairs among them have an effect on the odds.
unsure = model.predict_proba(X_test, classes=mask).max(axis=1).argmin()
first, second = np.argsort(-model.predict_proba(X_test[[unsure]], classes=mask[[unsure]])[0])[:2]
print(model.explain(X_test[unsure], first, second, classes=mask[[unsure]]))
