"""Sets, rejections, groups and possible classes are the same on models from runs, and on these saved and read again."""

import re

import numpy as np
import pytest
from small_runs import run_here, write_config, write_features

from pairloom import PairwiseSVC
from pairloom.cluster.drive.driver import load_data


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acting")
    features = write_features(folder / "data.npz", classes=6, rows=60, features=5, samples=50)
    return write_config(folder / "acting.toml", features)


CODE = ("model.coupling=auto", "run.also_couple=[]")
#: All classes coupled; lists of them; machines on sets of classes; no whitening, and so no places of the classes; and a
#: kernel, with the distances to its support vectors.
SETTINGS = {
    "pairs": ("graph.family=complete", "model.kernel=linear"),
    "lists": (
        "graph.family=hub_neighbours",
        "graph.neighbours=2",
        "model.shortlist=4",
        "model.kernel=linear",
    ),
    "code": ("graph.family=one_vs_rest", "model.kernel=linear", *CODE),
    "kernel": ("graph.family=complete", "model.kernel=rbf", "model.gamma=0.2"),
    "kernel, lists": ("graph.family=star", "model.shortlist=4", "model.kernel=rbf", "model.gamma=0.2"),
    "not whitened": ("graph.family=complete", "model.kernel=linear", "model.whiten=none"),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_run_acts_as_the_estimator_does(settings, config_file, client, tmp_path):
    plan = run_here(config_file, tmp_path / "run", client, *settings, until="model")
    data = load_data(plan.config).load()
    fitted = PairwiseSVC(**plan.estimator_parameters).fit(data.X_train, np.array(data.classes)[data.y_train])
    read = PairwiseSVC.from_run(tmp_path / "run")
    read.save(tmp_path / "model")
    groups = {label: f"group {c % 2}" for c, label in enumerate(fitted.classes_)}
    for model in (read, PairwiseSVC.load(tmp_path / "model")):
        X = data.X_test
        signals = [one.model_.held_out.novelty.weight for one in (model, fitted)]
        np.testing.assert_allclose(*signals, atol=1e-3)
        np.testing.assert_allclose(model.novelty(X), fitted.novelty(X), atol=1e-3)
        np.testing.assert_array_equal(model.predict(X, reject=0.1), fitted.predict(X, reject=0.1))
        sets = [one.predict_set(X, 0.9).toarray() for one in (model, fitted)]
        np.testing.assert_array_equal(*sets)
        answers = [one.predict_at(X, groups, 0.9) for one in (model, fitted)]
        assert answers[0].name.tolist() == answers[1].name.tolist()
        if fitted.model_.code is None:
            some = fitted.classes_[:3]
            expected = fitted.predict_proba(X, classes=some)
            np.testing.assert_allclose(model.predict_proba(X, classes=some), expected, atol=1e-6)


@pytest.mark.parametrize("settings", [SETTINGS["pairs"], SETTINGS["lists"]], ids=["pairs", "lists"])
def test_the_report_has_the_sets_of_the_test_samples(settings, config_file, client, tmp_path):
    plan = run_here(config_file, tmp_path / "run", client, *settings, until="report")
    data = load_data(plan.config).load()
    model = PairwiseSVC.from_run(tmp_path / "run")
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    cells = cells_of(page, "sets")
    expected = []
    for coverage in (0.8, 0.9, 0.95, 0.99):
        sets = model.predict_set(data.X_test, coverage).toarray()
        held = sets[np.arange(len(sets)), data.y_test].mean()
        expected += [f"{coverage:.0%}", f"{held:.4f}", f"{sets.sum(axis=1).mean():.2f}"]
    assert cells == expected


@pytest.mark.quick("lists")
@pytest.mark.parametrize("settings", [SETTINGS["lists"], SETTINGS["kernel"]], ids=["lists", "kernel"])
def test_the_report_has_the_samples_that_resemble_no_class(settings, config_file, client, tmp_path):
    plan = run_here(config_file, tmp_path / "run", client, *settings, until="report")
    X = load_data(plan.config).load().X_test
    model = PairwiseSVC.from_run(tmp_path / "run")
    novelty = model.novelty(X)
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    rejected, first = (cells_of(page, table) for table in ("rejected", "novel"))
    for (share, printed), reject in zip(
        zip(rejected[::2], rejected[1::2], strict=True), (0.01, 0.05, 0.1), strict=True
    ):
        answers = model.predict(X, reject=reject, reject_label="none of these")
        assert (share, printed) == (f"{reject:.0%}", f"{(answers == 'none of these').mean():.4f}")
    order = np.argsort(-novelty, kind="stable")[:20]
    assert first[::3] == [str(sample) for sample in order]
    assert first[1::3] == [f"{novelty[sample]:.2f}" for sample in order]
    assert first[2::3] == [f"<bdi>{name}</bdi>" for name in model.predict(X)[order]]


def cells_of(page, name):
    """The cells of a table of the page."""
    table = page[page.index(f'id="table-{name}"') :]
    return re.findall(r"<td[^>]*>(.*?)</td>", table[: table.index("</table>")])
