import pytest

from pairloom.pipeline.experiments.trained_tensor import load_set, machine_settings, train_tensor


@pytest.fixture(scope="session")
def digits_features():
    return load_set("digits")


@pytest.fixture(scope="session")
def digits(digits_features):
    return train_tensor(digits_features, machine_settings(digits_features.X_train))


@pytest.fixture(scope="session")
def synthetic():
    """Synthetic ImageNet-50 with every second test sample only, since these tests spend most of their time coupling."""
    features = load_set("imagenet50-synthetic")
    halved = features._replace(X_test=features.X_test[::2], y_test=features.y_test[::2])
    return train_tensor(halved, machine_settings(features.X_train))
