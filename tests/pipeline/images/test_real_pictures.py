"""Real pictures through a real network, where they are: 550 pictures of Imagenette, EfficientNet-Lite0."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from made_pictures import Silent

from pairloom import PairwiseSVC
from pairloom.pipeline.features.feature_set import load_features
from pairloom.pipeline.images.extraction import ExtractionOptions, extract_features

FOLDER = Path(os.environ.get("PAIRLOOM_DATA", Path(__file__).parents[4] / "shared" / "data"))
NETWORK = FOLDER / "efficientnet-lite0.onnx"
LITE = {"mean": [127.0], "std": [128.0], "pixel_range": 255}
# The places of Imagenette's classes among the thousand of ImageNet.
PLACES = {
    "n01440764": 0, "n02102040": 217, "n02979186": 482, "n03000684": 491, "n03028079": 497,
    "n03394916": 566, "n03417042": 569, "n03425413": 571, "n03445777": 574, "n03888257": 701,
}  # fmt: skip

pytestmark = [
    pytest.mark.skipif(not NETWORK.is_file(), reason=f"{NETWORK.name} is not in {FOLDER}"),
    pytest.mark.long,
]


def test_real_features_are_as_good_as_the_network(tmp_path):
    names = {place: wordnet_id for wordnet_id, place in PLACES.items()}
    (tmp_path / "outputs.txt").write_text("\n".join(names.get(k, f"output {k}") for k in range(1000)))
    options = ExtractionOptions(preprocessing=LITE, outputs=str(tmp_path / "outputs.txt"))
    done = extract_features(FOLDER / "pictures", NETWORK, tmp_path / "features.zarr", options, Silent())
    assert (done.rows, done.features, done.outputs) == ({"train": 400, "test": 150}, 1280, 1000)
    assert done.softmax
    assert done.network_accuracy > 0.95
    data = load_features(str(tmp_path / "features.zarr"))
    assert data.classes == tuple(PLACES)
    model = PairwiseSVC(random_state=0).fit(data.X_train, data.y_train)
    assert model.score(data.X_test, data.y_test) >= 0.92
    p = zarr.open_group(tmp_path / "features.zarr", mode="r")["probabilities_test"][:]
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-4)
