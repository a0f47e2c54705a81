"""
Growing: how many pairs are enough?
===================================

A model can start with few pairs and choose itself which to train next. It stops when its held-out log loss no
longer improves, or at a budget.
"""

# %%
# Sixty classes in clusters of six
# --------------------------------
# Classes of one cluster are easily confused, those of different clusters are not: most pairs add little information.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC

rng = np.random.default_rng(0)
clusters = 4 * rng.standard_normal((10, 1, 24)) / np.sqrt(24)
means = (clusters + 3 * rng.standard_normal((10, 6, 24)) / np.sqrt(24)).reshape(60, 24)
y = np.repeat(np.arange(60), 60)
X = means[y] + 1.2 * rng.standard_normal((len(y), 24))
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# Wave by wave
# ------------
# The model starts with one hub, joined to all classes, and the nearest class of each. Every wave trains the pairs
# that the model confuses most. `grow` is an iterator: between two waves the model can be used, and a ``break`` ends
# the growth.
few = {"family": "hub_neighbours", "hubs": 1, "neighbours": 1}
model = PairwiseSVC(few, random_state=0, kernel="linear").fit(X_train, y_train)
pairs, held_out, tested = [], [], []
for wave in model.grow(X_train, y_train):
    pairs.append(wave.pairs)
    held_out.append(wave.log_loss)
    tested.append(log_loss(y_test, model.predict_proba(X_test)))
    print(f"{wave.pairs:4d} pairs: held-out log loss {wave.log_loss:.3f}, test {tested[-1]:.3f}")

# %%
# Compared with all pairs
# -----------------------
# Only the held-out log loss, of training samples that the machines have not seen, decides when to stop.
complete = PairwiseSVC("complete", random_state=0, kernel="linear").fit(X_train, y_train)
limit = log_loss(y_test, complete.predict_proba(X_test))
print(f"{len(complete.edges_)} pairs, all of them: test log loss {limit:.3f}")

fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(pairs, held_out, "o-", label="held-out training samples")
axes.plot(pairs, tested, "o-", label="test samples")
axes.axhline(limit, color="grey", linestyle=":", label=f"all {len(complete.edges_)} pairs, test samples")
axes.set(xlabel="trained pairs", ylabel="log loss")
axes.legend()
