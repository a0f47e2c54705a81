"""The penultimate layer of networks of several forms, against the formula in numpy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from made_pictures import make_network
from onnx import TensorProto, helper

from pairloom.pipeline.images.extraction import CPU
from pairloom.pipeline.images.network import NoSuchLayer, open_network, penultimate_layer

PICTURES = np.random.default_rng(5).standard_normal((5, 16, 16, 3)).astype(np.float32)


def opened(path, **options):
    network = open_network(path, provider=CPU, threads=1, **options)
    network.measure((16, 16))
    return network


def expected(path, pictures=PICTURES):
    """Convolution, rectifier, mean; then the classifier."""
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    windows = np.lib.stride_tricks.sliding_window_view(pictures.transpose(0, 3, 1, 2), (3, 3), axis=(2, 3))
    maps = np.maximum(np.einsum("nchwij,fcij->nfhw", windows, weights["kernels"]), 0)
    features = maps.mean(axis=(2, 3))
    if "W" not in weights:
        return features, None
    scores = np.exp(features @ weights["W"] + weights["b"])
    return features, scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("head", ["Gemm", "MatMul"])
@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("batch", [None, 2])
def test_features_are_the_input_of_the_last_matrix_product(head, softmax, layout, batch, tmp_path):
    path = make_network(tmp_path / "net.onnx", head=head, softmax=softmax, layout=layout, batch=batch)
    before = path.read_bytes()
    network = opened(path)
    assert (network.layer, network.n_features, network.n_outputs) == ("pooled", 6, 3)
    assert network.softmax is not softmax
    for found, wanted in zip(network(PICTURES), expected(path), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)
    assert path.read_bytes() == before


def test_a_convolution_of_one_pixel_is_a_classifier_and_its_input_is_averaged(tmp_path):
    network = opened(make_network(tmp_path / "net.onnx", head="Conv"))
    assert (network.layer, network.positions, network.n_features) == ("rectified", (14, 14), 6)
    plain = opened(make_network(tmp_path / "plain.onnx"))
    np.testing.assert_allclose(network(PICTURES)[0], plain(PICTURES)[0], rtol=1e-5)


def test_a_layer_is_named_by_its_activations_or_its_operation(tmp_path):
    path = make_network(tmp_path / "net.onnx")
    by_activations, by_operation = opened(path, layer="rectified"), opened(path, layer="relu")
    assert by_activations.layer == by_operation.layer == "rectified"
    assert by_activations.output == "scores"
    with pytest.raises(NoSuchLayer, match=r"got 'poled'\. Did you mean 'pooled'\? Candidates: 'pooled'"):
        opened(path, layer="poled")


def test_a_network_without_a_classifier_names_candidates_and_has_no_probabilities(tmp_path):
    path = make_network(tmp_path / "net.onnx", head="none")
    with pytest.raises(NoSuchLayer, match=r"--layer must be given: .*'pooled'.* first: 'pooled', 'mean'\."):
        opened(path)
    network = opened(path, layer="pooled")
    assert (network.output, network.n_outputs) == (None, 0)
    features, probabilities = network(PICTURES)
    np.testing.assert_allclose(features, expected(path)[0], rtol=2e-5, atol=1e-6)
    assert probabilities is None


def test_the_search_ends_where_the_way_back_forks():
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "k"], ["a"], kernel_shape=[1, 1]),
        node("Add", ["a", "x"], ["sum"]),
        node("GlobalAveragePool", ["sum"], ["out"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "residual",
        [value("x", TensorProto.FLOAT, None)],
        [value("out", TensorProto.FLOAT, None)],
        [helper.make_tensor("k", TensorProto.FLOAT, [1, 1, 1, 1], [1.0])],
    )
    with pytest.raises(NoSuchLayer, match="'out'"):
        penultimate_layer(graph)


def test_a_product_of_two_activations_is_no_classifier():
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "x"], ["out"])],
        "attention",
        [value("x", TensorProto.FLOAT, None)],
        [value("out", TensorProto.FLOAT, None)],
    )
    with pytest.raises(NoSuchLayer):
        penultimate_layer(graph)


def test_grey_networks_and_networks_of_any_size_are_taken(tmp_path):
    network = opened(make_network(tmp_path / "net.onnx", channels=1, size=None))
    assert (network.input.channels, network.input.size) == (1, (None, None))
    assert network(PICTURES[:, :, :, :1])[0].shape == (5, 6)


def test_the_layout_is_asked_for_where_the_shape_does_not_tell(tmp_path):
    path = make_network(tmp_path / "net.onnx", size=3)
    with pytest.raises(ValueError, match=r"--layout must be given, nchw or nhwc: .* any x 3 x 3 x 3"):
        open_network(path, provider=CPU, threads=1)
    assert open_network(path, layout="nchw", provider=CPU, threads=1).input.layout == "nchw"


def test_what_is_no_network_is_refused(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"no network")
    with pytest.raises(ValueError, match="--model must be an ONNX file"):
        opened(tmp_path / "net.onnx")
    with pytest.raises(
        ValueError, match=r"--provider must be one .*CPUExecutionProvider.*, got 'AbacusProvider'"
    ):
        open_network(make_network(tmp_path / "good.onnx"), provider="AbacusProvider", threads=1)


def test_weights_in_a_file_beside_the_model_are_part_of_its_digest(tmp_path):
    model = onnx.load(make_network(tmp_path / "whole.onnx"))
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    network = opened(path)
    np.testing.assert_allclose(network(PICTURES)[0], opened(tmp_path / "whole.onnx")(PICTURES)[0], rtol=1e-6)
    weights = bytearray((tmp_path / "weights.bin").read_bytes())
    weights[3] ^= 1
    (tmp_path / "weights.bin").write_bytes(weights)
    assert opened(path).digest != network.digest


def with_weights_at(path, place):
    """A network whose weights are in a file of that name."""
    make_network(path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = place if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "place", ["../weights.bin", "/etc/passwd", "linked.bin", "linked/weights.bin", "a/../../x"]
)
def test_weights_outside_of_the_folder_of_a_network_are_refused(place, tmp_path):
    (tmp_path / "net").mkdir()
    with_weights_at(tmp_path / "net" / "net.onnx", place)
    (tmp_path / "net" / "weights.bin").rename(tmp_path / "weights.bin")
    (tmp_path / "net" / "linked.bin").symlink_to(tmp_path / "weights.bin")
    (tmp_path / "net" / "linked").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="must have its weights in files of its own folder, got"):
        opened(tmp_path / "net" / "net.onnx")


def test_weights_of_graphs_within_a_graph_are_looked_at_too(tmp_path):
    tensor = TensorProto(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    inner = helper.make_graph([], "inner", [], [], [tensor])
    node = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    onnx.save(helper.make_model(helper.make_graph([node], "outer", [], [])), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"files of its own folder, got '\.\./secret'"):
        opened(tmp_path / "net.onnx")
