"""
Embeddings of text
==================

Pairs of classes work best on sentence embeddings: many classes, tens of rows each, hundreds of
features. Here 40 topics are generated, each with its own preferences among 2000 words. TF-IDF and a truncated SVD
turn the documents into embeddings of 64 features; embeddings of a language model would take their place.
"""

# %%
# Documents
# ---------
# Word frequencies follow Zipf's law. Topics come in ten groups of four that share most of their vocabulary, so that
# some pairs of topics are easily confused.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pairloom import PairwiseSVC

rng = np.random.default_rng(0)
groups, topics_per_group, words, documents = 10, 4, 2000, 60

background = 1 / np.arange(1, words + 1)
group_words = rng.gamma(0.3, size=(groups, 1, words))
topic_words = group_words + 0.6 * rng.gamma(0.3, size=(groups, topics_per_group, words))
preferences = (background * topic_words).reshape(-1, words)
preferences /= preferences.sum(axis=1, keepdims=True)

names = np.array([f"group {g}, topic {t}" for g in range(groups) for t in range(topics_per_group)])
y = np.repeat(names, documents)
counts = np.array([rng.multinomial(60, p) for p in preferences for _ in range(documents)])

# %%
# Fit
# ---
# `PairwiseSVC` is a classifier of scikit-learn, so it can end a pipeline.
counts_train, counts_test, y_train, y_test = train_test_split(counts, y, stratify=y, random_state=0)
embedding = make_pipeline(TfidfTransformer(), TruncatedSVD(64, random_state=0)).fit(counts_train)
X_train, X_test = embedding.transform(counts_train), embedding.transform(counts_test)

model = PairwiseSVC(random_state=0).fit(X_train, y_train)
pairs = len(names) * (len(names) - 1) // 2
print(f"{len(model.edges_)} of {pairs} pairs, C = {model.C_:.3g}, calibration: {model.calibration_}")

# %%
# Probabilities
# -------------
# Log loss measures probabilities. One logistic regression is the usual alternative.
other = LogisticRegression(C=10 / X_train.var(axis=0).sum(), max_iter=1000).fit(X_train, y_train)
for name, fitted in {"PairwiseSVC": model, "LogisticRegression": other}.items():
    p = fitted.predict_proba(X_test)
    accuracy = accuracy_score(y_test, fitted.classes_[p.argmax(axis=1)])
    print(f"{name:20s} accuracy {accuracy:.3f}, log loss {log_loss(y_test, p, labels=fitted.classes_):.3f}")

# %%
# The logistic regression is a little more accurate, but much less confident than it could be: log loss counts both. Of
# the samples that get a probability of 0.7 about 70% should be right. The diagram compares the two in ten groups
# of test samples of equal size.
fig, axes = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
for name, fitted in {"PairwiseSVC": model, "LogisticRegression": other}.items():
    p = fitted.predict_proba(X_test)
    confidence, right = p.max(axis=1), fitted.classes_[p.argmax(axis=1)] == y_test
    bins = np.array_split(np.argsort(confidence), 10)
    axes.plot([confidence[b].mean() for b in bins], [right[b].mean() for b in bins], "o-", label=name)
axes.plot([0, 1], [0, 1], ":", color="grey")
axes.set(xlabel="predicted probability", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
axes.legend()

# %%
# The hardest pairs
# -----------------
# d' is the distance between the two classes of a pair, in units of their spread. The pairs with the lowest d' lie
# within groups.
hardest = sorted(model.pairs_.items(), key=lambda item: item[1].dprime)[:5]
for (a, b), machine in hardest:
    print(f"d' = {machine.dprime:.2f}: {a} against {b}")
