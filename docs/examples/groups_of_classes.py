"""
A group when the class is uncertain
===================================

Classes often belong to groups: products to departments, diagnoses to chapters. `predict_at` returns the class if the
model is sure of it, and else the finest group that is probable enough. As many answers are right as you ask for.
"""

# %%
# Embedded documents of 40 topics, which come in ten groups that share most of their vocabulary, as in the example of
# embeddings of text.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pairloom import PairwiseSVC

random = np.random.default_rng(0)
group_words = random.gamma(0.3, size=(10, 1, 2000))
topic_words = group_words + 0.6 * random.gamma(0.3, size=(10, 4, 2000))
preferences = (topic_words / np.arange(1, 2001)).reshape(40, -1)
preferences /= preferences.sum(axis=1, keepdims=True)
y = np.repeat([f"topic {topic:02}" for topic in range(40)], 100)
counts = np.array([random.multinomial(30, preferences[n // 100]) for n in range(len(y))])

X = make_pipeline(TfidfTransformer(), TruncatedSVD(64, random_state=0)).fit_transform(counts)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
model = PairwiseSVC(random_state=0).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.3f}")

# %%
# One mapping, or several from fine to coarse
# -------------------------------------------
# The probability of a group is the sum of those of its classes.
groups = {label: f"group {topic // 4}" for topic, label in enumerate(model.classes_)}
halves = {f"group {g}": "first half" if g < 5 else "second half" for g in range(10)}
names, p = model.group_proba(X_test, groups)
true = np.array([groups[label] for label in y_test])
print(f"likeliest group right: {np.mean(names[p.argmax(axis=1)] == true):.3f}")

# %%
# The finest group that is probable enough
# ----------------------------------------
# The coarsest answer is "any", which is always right.
true_names = np.array([y_test, true, [halves[group] for group in true], ["any"] * len(y_test)], dtype=object)
levels, shares = ("topic", "group", "half", "any"), []
for coverage in (0.8, 0.9, 0.95, 0.99):
    answers = model.predict_at(X_test, [groups, halves], coverage)
    right = answers.name == true_names[answers.level, np.arange(len(y_test))]
    shares.append(np.bincount(answers.level, minlength=4) / len(y_test))
    print(
        f"{coverage:.0%}: right {right.mean():.1%}, of which topics {np.mean(right & (answers.level == 0)):.1%}"
    )

# %%
# A higher coverage makes answers coarser.
fig, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.stackplot([80, 90, 95, 99], np.transpose(shares), labels=levels)
axes.set(xlabel="coverage, %", ylabel="share of the answers", xlim=(80, 99), ylim=(0, 1))
axes.legend(loc="lower left")

# %%
# Each answer has a level and a probability.
answers = model.predict_at(X_test[:6], [groups, halves], 0.9)
for name, level, probability, label in zip(*answers, y_test, strict=False):
    print(f"{name} ({levels[level]}, {probability:.2f}); the true topic is {label}, of {groups[label]}")
