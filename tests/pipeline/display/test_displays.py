import matplotlib as mpl
import numpy as np
import pytest
from fitted_models import blobs, fitted

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.display.displays import ConfusionDisplay, GraphDisplay, ReliabilityDisplay
from pairloom.pipeline.display.evaluation import reliability, scores


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


@pytest.fixture(scope="module")
def model(data):
    return fitted(data, graph={"family": "hub_neighbours", "hubs": 1, "neighbours": 1})


def drawn(display):
    """The figure can be drawn: names with odd characters are only found out then."""
    display.figure_.canvas.draw()
    return display


def many_predictions(n, seed=0):
    """Labels of n classes, one in six of which is taken for the class eight further on."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n), 12)
    wrong = rng.random(len(y)) < 1 / 6
    return y, np.where(wrong, (y + 8 * rng.choice([-1, 1], len(y))) % n, y)


def test_the_methods_of_the_estimator_draw(model, data):
    graph = drawn(model.plot_graph())
    assert isinstance(graph, GraphDisplay)
    assert isinstance(drawn(model.plot_reliability(data.X_new, data.y_new)), ReliabilityDisplay)
    confusion = drawn(model.plot_confusion(data.X_new, data.y_new))
    assert confusion.confusion_matrix.sum() == len(data.y_new)
    assert np.trace(confusion.confusion_matrix) / len(data.y_new) == model.score(data.X_new, data.y_new)


def test_a_figure_is_drawn_into_given_axes(model, data):
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 3)
    assert model.plot_graph(ax=axes[0]).ax_ is axes[0]
    assert model.plot_reliability(data.X_new, data.y_new, ax=axes[1]).ax_ is axes[1]
    assert model.plot_confusion(data.X_new, data.y_new, ax=axes[2]).ax_ is axes[2]


def test_the_graph_has_a_line_per_pair_and_marks_its_hubs(model):
    shown = drawn(model.plot_graph())
    (lines,) = [found for found in shown.ax_.collections if hasattr(found, "get_segments")]
    assert len(lines.get_segments()) == len(model.edges_)
    assert shown.hubs_ == model.graph_.graph["hubs"]
    assert {text.get_text() for text in shown.ax_.texts} == {str(label) for label in model.classes_}


def test_no_class_of_a_complete_graph_is_marked_as_a_hub():
    shown = drawn(GraphDisplay(graphs.complete(5), list("abcde")).plot())
    assert shown.hubs_ == []
    assert shown.ax_.get_title() == "5 classes, 10 of 10 pairs"


def test_thousands_of_pairs_are_a_matrix():
    shown = drawn(GraphDisplay(graphs.complete(80), list(range(80))).plot())
    (image,) = shown.ax_.images
    assert image.get_array().sum() == 80 * 79


def test_a_code_is_shown_as_its_matrix(data):
    shown = drawn(fitted(data, graph="dense").plot_graph())
    (image,) = shown.ax_.images
    np.testing.assert_array_equal(image.get_array(), shown.graph)
    assert set(np.unique(shown.graph)) == {-1, 1}


def test_the_curve_is_that_of_the_report(model, data):
    p = model.predict_proba(data.X_new)
    shown = ReliabilityDisplay.from_predictions(data.y_new, p, model.classes_, n_bins=15)
    bins = reliability(p, data.y_new)
    seen = bins.samples > 0
    np.testing.assert_allclose(shown.prob_true, bins.accuracy[seen])
    np.testing.assert_allclose(shown.prob_pred, bins.confidence[seen])
    np.testing.assert_array_equal(shown.counts, bins.samples)
    assert shown.calibration_error == pytest.approx(scores(p, data.y_new).expected_calibration_error)
    np.testing.assert_allclose(shown.line_.get_ydata(), shown.prob_true)


def test_predictions_that_are_all_right_have_a_curve_too():
    p = np.array([[0.9, 0.1], [1.0, 0.0], [0.2, 0.8]])
    shown = drawn(ReliabilityDisplay.from_predictions(["a", "a", "b"], p, ["a", "b"]))
    assert (shown.prob_true == 1).all()
    assert shown.counts.sum() == 3


def test_few_classes_keep_their_order_and_have_numbers():
    y = np.array([0, 0, 1, 2, 2])
    shown = drawn(ConfusionDisplay.from_predictions(y, [0, 2, 1, 2, 0]))
    assert shown.order_.tolist() == [0, 1, 2]
    assert sorted(text.get_text() for text in shown.ax_.texts) == sorted("101010101")


def test_many_classes_are_ordered_by_cluster_and_have_no_numbers():
    y, predicted = many_predictions(150)
    shown = drawn(ConfusionDisplay.from_predictions(y, predicted))
    assert not shown.ax_.texts
    place = np.argsort(shown.order_)
    wrong = y != predicted
    assert np.median(np.abs(place[y[wrong]] - place[predicted[wrong]])) <= 2, "they were 8 apart"
    assert len(shown.ax_.get_yticklabels()) == 150
    assert shown.ax_.get_yticklabels()[0].get_text() == str(shown.order_[0])


@pytest.mark.long
def test_the_names_of_many_classes_do_not_overlap():
    y, predicted = many_predictions(150)
    shown = drawn(ConfusionDisplay.from_predictions(y, predicted))
    boxes = [label.get_window_extent() for label in shown.ax_.get_yticklabels()]
    lower, upper = np.array([(box.y0, box.y1) for box in boxes]).T
    assert (upper[1:] <= lower[:-1] + 1).all()


def test_where_rows_are_too_low_only_some_have_names():
    import matplotlib.pyplot as plt

    y, predicted = many_predictions(150)
    shown = ConfusionDisplay.from_predictions(y, predicted, ax=plt.subplots(figsize=(4, 4))[1])
    assert 10 < len(shown.ax_.get_yticklabels()) < 80


def test_the_order_can_be_chosen():
    y, predicted = many_predictions(24)
    shown = ConfusionDisplay.from_predictions(y, predicted, order="labels")
    assert shown.order_.tolist() == list(range(24))
    assert ConfusionDisplay.from_predictions(y, predicted, order="cluster").order_.tolist() != list(range(24))
    with pytest.raises(ValueError, match="order must be 'auto', 'cluster' or 'labels', got 'size'"):
        ConfusionDisplay.from_predictions(y, predicted, order="size")


def test_an_order_has_every_class_once():
    for n in (2, 3, 7, 40):
        confusion = np.random.default_rng(n).integers(0, 5, (n, n))
        assert sorted(clustered_order(confusion)) == list(range(n))
    assert sorted(clustered_order(np.zeros((5, 5), int))) == list(range(5)), "no sample of any class"


def test_classes_that_are_confused_are_neighbours():
    order = clustered_order(np.array([[8, 0, 2], [0, 9, 0], [3, 0, 7]]))
    assert abs(order.index(0) - order.index(2)) == 1


def clustered_order(confusion):
    shown = ConfusionDisplay(confusion, display_labels=range(len(confusion)), order="cluster")
    return shown.plot().order_.tolist()


@pytest.mark.parametrize("bins", [0, -1])
def test_a_curve_has_one_bin_at_least(bins):
    p = np.array([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(ValueError, match=f"n_bins == {bins}, must be >= 1"):
        ReliabilityDisplay.from_predictions(["a", "b"], p, ["a", "b"], n_bins=bins)


def test_names_with_markup_are_harmless():
    X, y = blobs(3, 2, 12)
    labels = np.array(["$x^2", "a\nb", "_%{}\\"])[y]
    model = PairwiseSVC("complete", random_state=0).fit(X, labels)
    for shown in (model.plot_graph(), model.plot_reliability(X, labels), model.plot_confusion(X, labels)):
        drawn(shown)


def test_unknown_labels_are_refused(model, data):
    y = data.y_new.copy()
    y[0] = 7
    with pytest.raises(ValueError, match="y_true must hold classes of the model, 0, 1, 2, 3, 4, got 7"):
        model.plot_confusion(data.X_new, y)
    with pytest.raises(ValueError, match="y_true must hold classes of the model"):
        model.plot_reliability(data.X_new, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.plot_confusion(data.X_new, y[1:])


def test_nothing_is_drawn_before_a_fit():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        PairwiseSVC().plot_graph()
    with pytest.raises(NotFittedError):
        PairwiseSVC().plot_confusion([[0.0]], [0])


def test_an_estimator_does_not_import_pyplot():
    import subprocess
    import sys

    code = "import sys, pairloom; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
