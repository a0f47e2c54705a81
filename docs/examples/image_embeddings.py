"""
Embeddings of images
====================

A network turns pictures into features; pairs of classes are trained on those of its last hidden layer. Here the
pictures are the 8 x 8 digits of scikit-learn and the network is small. `pairloom features` does the same with folders
of pictures and any ONNX network.
"""

# %%
# A network and its last hidden layer
# -----------------------------------
# The network is trained on a third of the pictures. The machines have to be trained on other pictures: on the training
# pictures of the network the features are better than on new ones.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from pairloom import PairwiseSVC

pictures, y = load_digits(return_X_y=True)
pictures_net, rest, y_net, y_rest = train_test_split(
    pictures, y, train_size=1 / 3, stratify=y, random_state=0
)
pictures_train, pictures_test, y_train, y_test = train_test_split(
    rest, y_rest, train_size=0.5, stratify=y_rest, random_state=0
)
network = MLPClassifier((48,), max_iter=400, random_state=0).fit(pictures_net / 16, y_net)


def features(pictures):
    """Activations of the hidden layer."""
    return np.maximum(pictures / 16 @ network.coefs_[0] + network.intercepts_[0], 0)


# %%
# All pairs, or some
# ------------------
# Ten classes have only 45 pairs, so all of them are trained.
model = PairwiseSVC("complete", random_state=0).fit(features(pictures_train), y_train)
for name, p in {
    "network": network.predict_proba(pictures_test / 16),
    "pairs on its features": model.predict_proba(features(pictures_test)),
}.items():
    accuracy = (p.argmax(axis=1) == y_test).mean()
    print(f"{name:22s} accuracy {accuracy:.3f}, log loss {log_loss(y_test, p):.3f}")

# %%
# The least certain pictures
# --------------------------
# Probabilities that can be trusted tell which pictures a person should look at.
p = model.predict_proba(features(pictures_test))
unsure = np.argsort(p.max(axis=1))[:6]
fig, panels = plt.subplots(1, 6, figsize=(9, 2.2), layout="constrained")
for axes, r in zip(panels, unsure, strict=True):
    first, second = np.argsort(p[r])[::-1][:2]
    axes.imshow(pictures_test[r].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"{first}: {p[r, first]:.2f}\n{second}: {p[r, second]:.2f}", fontsize=9)
    axes.set_axis_off()
