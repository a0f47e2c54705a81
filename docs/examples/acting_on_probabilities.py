"""
Acting on probabilities
=======================

Sets that contain the true class, novelty, possible classes, groups, and labels that look wrong: all from one fit,
calibrated on the samples that it held out.
"""

# %%
# Embedded documents of 40 topics, which come in ten groups that share most of their vocabulary, as in the example of
# embeddings of text. The topics of the last group are unknown to the model, but not to the embedding, which is made
# without labels, as that of a language model is.
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pairloom import PairwiseSVC

random = np.random.default_rng(0)
group_words = random.gamma(0.3, size=(10, 1, 2000))
topic_words = group_words + 0.6 * random.gamma(0.3, size=(10, 4, 2000))
preferences = (topic_words / np.arange(1, 2001)).reshape(40, -1)
preferences /= preferences.sum(axis=1, keepdims=True)
y = np.repeat(np.arange(40), 100)
counts = np.array([random.multinomial(60, preferences[topic]) for topic in y])

known = y < 36
counts_train, counts_test, y_train, y_test = train_test_split(
    counts[known], y[known], test_size=0.4, stratify=y[known], random_state=0
)
embedding = make_pipeline(TfidfTransformer(), TruncatedSVD(64, random_state=0)).fit(counts)
X_train, X_test, X_unknown = map(embedding.transform, (counts_train, counts_test, counts[~known]))

model = PairwiseSVC(random_state=0).fit(X_train, y_train)

# %%
# A set of classes that contains the true one
# -------------------------------------------
# It does so as often as requested, on average over samples from the distribution of the training samples.
for coverage in (0.8, 0.9, 0.95):
    sets = model.predict_set(X_test, coverage).toarray()
    held = sets[np.arange(len(y_test)), y_test].mean()
    print(f"{coverage:.0%}: contains the true class {held:.1%}, mean size {sets.sum(axis=1).mean():.2f}")

# %%
# None of these
# -------------
# `novelty` is higher for samples that resemble no class. `predict` rejects samples above a limit that 5% of the known
# samples exceed, too.
of_known, of_unknown = model.predict(X_test, reject=0.05), model.predict(X_unknown, reject=0.05)
print(
    f"rejected: {np.mean(of_known == -1):.1%} of known topics, {np.mean(of_unknown == -1):.1%} of unknown ones"
)

# %%
# Only these
# ----------
# The pairs among the possible classes are coupled, as in a model of these alone. Renormalising the probabilities of all
# classes gives other results, which are seldom worse.
possible = np.arange(8)
is_possible = y_test < 8
coupled = model.predict_proba(X_test[is_possible], classes=possible)[:, :8]
divided = model.predict_proba(X_test[is_possible])[:, :8]
divided /= divided.sum(axis=1, keepdims=True)
for name, p in (("coupled", coupled), ("divided", divided)):
    print(f"eight topics possible, {name}: log loss {log_loss(y_test[is_possible], p):.3f}")

# %%
# The group when the class is uncertain
# -------------------------------------
# The answer is the finest group that is certain enough.
groups = {topic: f"group {topic // 4}" for topic in range(36)}
for coverage in (0.9, 0.95, 0.98):
    answers = model.predict_at(X_test, groups, coverage)
    shares = [
        f"{np.mean(answers.level == level):.0%} {name}"
        for level, name in enumerate(("topic", "group", "any"))
    ]
    print(f"{coverage:.0%}: {', '.join(shares)}")

# %%
# Labels that look wrong
# ----------------------
# Some training labels are changed. Every row is judged by machines that were not fitted on it.
wrong = random.random(len(y_train)) < 0.03
y_wrong = np.where(wrong, (y_train + random.integers(1, 36, len(y_train))) % 36, y_train)
doubts = PairwiseSVC(random_state=0).fit(X_train, y_wrong).label_doubts(y_wrong, X_train)
first = doubts.row[: wrong.sum()]
print(f"{wrong[first].mean():.0%} of the {wrong.sum()} most doubtful labels are wrong;", end=" ")
print(f"for {np.mean(doubts.better[: wrong.sum()] == y_train[first]):.0%} the better class is the true one")
