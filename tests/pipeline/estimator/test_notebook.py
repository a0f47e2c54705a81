"""A model in a notebook and in a terminal."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from fitted_models import fitted
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pairloom import PairwiseSVC

VOID = {"br", "link", "meta", "input", "img", "hr", "path", "svg"}


class Nesting(HTMLParser):
    """Raises unless every element that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def text_of(html):
    return " ".join(
        re.sub("<style>.*?</style>|<script>.*?</script>|<[^>]+>", " ", html, flags=re.DOTALL).split()
    )


def shown(model):
    """The page of a model. Its summary is sound; what follows is scikit-learn's, of which 1.8 does not escape all."""
    html = model._repr_mimebundle_()["text/html"]
    summary, _, rest = html.partition("<style>")
    assert "sk-container-id" in rest
    parser = Nesting()
    parser.feed(summary)
    assert not parser.open
    return html


def test_a_fitted_model_shows_what_was_chosen(data):
    model = fitted(data, graph={"family": "hub_neighbours", "hubs": 1, "neighbours": 2})
    text = text_of(shown(model))
    assert "classes 5: 0, 1, 2, 3, 4" in text
    assert f"pairs {len(model.edges_)} of 10" in text
    assert "graph hub_neighbours(" in text
    assert f"C {model.C_:.4g}" in text
    assert f"calibration {model.calibration_}" in text
    assert f"scale {model.scale_:.4g}, chosen for stratified coupling" in text
    assert re.search('<a href="[^"]+"[^>]*>Documentation of PairwiseSVC</a>', shown(model))


def test_a_model_shows_how_well_it_does_on_held_out_samples(data):
    model = fitted(data, graph="complete", shortlist="none")
    found = model.model_.held_out
    loss = np.average(-np.log(found.p), weights=found.weight)
    assert f"held out log loss {loss:.4g}, accuracy " in text_of(shown(model))


def test_what_was_compared_is_a_table_and_still_a_list(data):
    candidates = fitted(data, C=[0.1, 1.0], kernel="linear").candidates_
    assert isinstance(candidates, list)
    text = text_of(candidates._repr_html_())
    assert all(name in text for name in candidates[0])
    assert all(f"{row['log_loss']:.4g}" in text for row in candidates)


def test_what_scikit_learn_shows_is_still_there(data):
    model = fitted(data)
    html = shown(model)
    assert "sk-top-container" in html
    assert "random_state" in html
    assert repr(model) == "PairwiseSVC(random_state=0)"
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
    assert "PairwiseSVC" in make_pipeline(StandardScaler(), clone(model))._repr_html_()


def test_an_unfitted_model_says_so():
    text = text_of(shown(PairwiseSVC(C=3.0, kernel="linear")))
    assert "PairwiseSVC, not fitted" in text
    assert "scale " not in text.split("Parameters")[0]


@pytest.mark.parametrize(
    "parameters",
    [
        {"graph": "dense"},
        {"kernel": "rbf"},
        {"estimator": LogisticRegression(), "calibration": "platt"},
        {"graph": "path"},
    ],
    ids=["code", "kernel", "estimator", "path"],
)
def test_every_kind_of_model_has_a_summary(parameters, data):
    text = text_of(shown(fitted(data, **parameters)))
    assert "classes 5" in text
    if "estimator" in parameters:
        assert "kernel LogisticRegression" in text
    if parameters.get("graph") == "dense":
        assert "on sets of classes" in text


def test_a_graph_of_ones_own_has_a_summary(data):
    import networkx as nx

    assert "graph" in text_of(shown(fitted(data, graph=nx.path_graph(5))))


def test_labels_are_escaped(data):
    labels = np.array(["<script>alert(1)</script>", "b", "c", "d", "e"])
    model = PairwiseSVC(random_state=0, kernel="linear").fit(data.X, labels[data.y])
    html = shown(model) + model.pairs_._repr_html_() + model.explain(data.X[0], labels[0], "b")._repr_html_()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_pairs_print_themselves(data):
    pairs = fitted(data, graph="complete").pairs_
    lines = repr(pairs).splitlines()
    assert lines[0].startswith("10 pairs")
    assert lines[2].split() == ["a", "/", "b", "|weights|", "bias", "d'"]
    assert len(lines) == 3 + 10
    first = pairs[0, 1]
    assert lines[3].split()[:3] == ["0", "/", "1"]
    assert float(lines[3].split()[3]) == pytest.approx(np.linalg.norm(first.weights), rel=1e-3)
    assert "<table" in pairs._repr_html_()


def test_many_pairs_print_their_head_and_tail(digits):
    linear = {"kernel": "linear", "C": "scale", "whiten": "none", "calibration": "distance"}
    pairs = fitted(digits, graph="complete", **linear).pairs_
    lines = repr(pairs).splitlines()
    assert lines[0].startswith("45 pairs")
    assert len(lines) == 3 + 5 + 1 + 5
    assert lines[-1].split()[:3] == ["8", "/", "9"]


def test_pairs_are_still_a_mapping(data):
    pairs = fitted(data, graph="complete").pairs_
    assert len(pairs) == 10
    assert (0, 1) in pairs
    assert (1, 0) in pairs
    np.testing.assert_array_equal(pairs[0, 1].weights, -pairs[1, 0].weights)
    assert next(iter(pairs)) == (0, 1)
