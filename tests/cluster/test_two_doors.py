"""A run and the estimator are one model: the same settings give the same machines and the same probabilities."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from small_runs import (
    assert_same_bytes,
    bytes_of,
    run_here,
    write_config,
    write_features,
    write_regions,
)

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import load_data
from pairloom.graphs import CODE_FAMILIES, FAMILIES
from pairloom.pipeline.coupling.pairs.couple import METHODS
from pairloom.pipeline.machines import kernel_function as gram_blocks
from pairloom.pipeline.run.run_directory import open_group

GRAPHS = {
    "star": ("graph.centre=2",),
    "path": (),
    "tree": ("graph.parents=[-1, 0, 0, 1, 1, 2]",),
    "spanning_tree": (),
    "star_of_least_distance": (),
    "bipartite": ("graph.hubs=2",),
    "complete": (),
    "hub_neighbours": ("graph.hubs=1", "graph.neighbours=2"),
    "grown": ("graph.edges=9", "graph.seed=3"),
}
COUPLINGS = tuple(METHODS)
#: Machines that standardise and calibrate themselves do not let others do it.
OF_SCHEME = {
    "fold_alone": (
        "model.kernel=linear",
        "model.calibration=platt",
        "model.standardise=false",
        "model.whiten=none",
    )
}


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    """Features in float64 and far from zero: both doors have to centre them before they become float32."""
    folder = tmp_path_factory.mktemp("doors")
    features = write_features(folder / "data.npz", classes=6, rows=24, features=5, samples=50)
    with np.load(features) as archive:
        arrays = dict(archive)
    for name in ("X_train", "X_test"):
        arrays[name] = arrays[name].astype(np.float64) + 1e6
    np.savez(features, **arrays)
    return write_config(folder / "doors.toml", features, edges_per_tile=4, samples_per_slab=32)


def estimator_of(plan, **parameters):
    return PairwiseSVC(**plan.estimator_parameters | parameters)


def fitted(plan, data, **parameters):
    return estimator_of(plan, **parameters).fit(data.X_train, np.array(data.classes)[data.y_train])


def probabilities_of(directory, coupling):
    return open_group(directory, "probabilities.zarr")[coupling][:]


def test_every_family_is_tried():
    assert set(GRAPHS) == set(FAMILIES)


@pytest.mark.quick(
    *(f"{family}-rest" for family in GRAPHS), "hub_neighbours-fold", "tree-all", "complete-fold_alone"
)
@pytest.mark.parametrize(
    ("family", "fit_on"),
    [
        *((family, fit_on) for family in GRAPHS for fit_on in ("rest", "fold")),
        ("hub_neighbours", "all"),
        ("tree", "all"),
        ("complete", "fold_alone"),
        ("hub_neighbours", "fold_alone"),
    ],
)
def test_the_run_has_the_probabilities_of_the_estimator(family, fit_on, config_file, client, tmp_path):
    overrides = (
        f"graph.family={family}",
        *GRAPHS[family],
        f"model.fit_on={fit_on}",
        *OF_SCHEME.get(fit_on, ()),
    )
    plan = run_here(config_file, tmp_path / "run", client, *overrides)
    data = load_data(plan.config).load()
    assert plan.shape.couplings == COUPLINGS or set(plan.shape.couplings) == set(COUPLINGS)
    for coupling in COUPLINGS:
        model = fitted(plan, data, coupling=coupling)
        read = PairwiseSVC.from_run(tmp_path / "run", coupling=coupling)
        np.testing.assert_array_equal(model.edges_, read.edges_)
        for ours, theirs in zip(model.machines_, read.machines_, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert read.scale_ == pytest.approx(model.scale_, rel=1e-5)
        expected = model.predict_proba(data.X_test)
        np.testing.assert_allclose(probabilities_of(tmp_path / "run", coupling), expected, atol=1e-6)
        np.testing.assert_allclose(read.predict_proba(data.X_test), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("whiten", '"none"'),
        ("whiten", '"auto"'),
        ("C", '[0.001, "scale", 1.0]'),
        ("C", '"auto"'),
        ("calibration", '"distance"'),
        ("calibration", '"slopes"'),
        ("calibration", '"auto"'),
        ("coupling", '"auto"'),
        ("shortlist", "3"),
        ("folds", '"auto"'),
        ("thresholds", "true"),
        ("folds", "3"),
        ("tol", "0.01"),
        ("calibration_samples", "30"),
        ("coupled_calibration", '"none"'),
        ("coupled_calibration", '"edges"'),
        ("priors", "[6, 5, 4, 3, 2, 1]"),
        ("priors", str({f"class {c}": 6 - c for c in range(6)}).replace(":", " =")),
        ("class_weight", '"balanced"'),
        ("class_weight", '{ "class 1" = 5.0 }'),
        ("random_state", "7"),
        ("kernel", '"rbf"'),
        ("kernel", '"auto"'),
        ("standardise", '"auto"'),
        ("standardise", "true"),
    ],
)
def test_every_parameter_means_the_same(section, value, config_file, client, tmp_path):
    directory = tmp_path / "run"
    overrides = ("graph.family=hub_neighbours", "run.also_couple=[]", f"model.{section}={value}")
    plan = run_here(config_file, directory, client, *overrides)
    data = load_data(plan.config).load()
    model, read = fitted(plan, data), PairwiseSVC.from_run(directory)
    for ours, theirs in zip(model.machines_, read.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("C_", "whiten_", "calibration_", "coupling_"):
        assert getattr(model, name) == getattr(read, name)
    assert read.list_mass_ == pytest.approx(model.list_mass_, rel=1e-3)
    assert (read.list_mass_ != (1, 0)) == (section == "shortlist")
    assert [row["log_loss"] for row in read.candidates_] == pytest.approx(
        [row["log_loss"] for row in model.candidates_], rel=1e-5
    )
    np.testing.assert_allclose(
        probabilities_of(directory, plan.shape.couplings[0]), model.predict_proba(data.X_test), atol=1e-6
    )
    assert plan.shape.couplings[0] == ("auto" if section == "coupling" else "stratified")
    np.testing.assert_allclose(read.class_shares_, model.class_shares_)


def test_two_rows_of_each_class_are_enough_for_both(client, tmp_path):
    """Once one of them is held out, nothing is left to measure distances within classes by."""
    features = write_features(tmp_path / "data.npz", classes=10, rows=2, features=4, samples=20)
    plan = run_here(write_config(tmp_path / "two.toml", features), tmp_path / "run", client, until="model")
    data, read = load_data(plan.config).load(), PairwiseSVC.from_run(tmp_path / "run")
    model = fitted(plan, data)
    assert read.model_.held_out.places is model.model_.held_out.places is None
    np.testing.assert_allclose(read.predict_proba(data.X_test), model.predict_proba(data.X_test), atol=1e-6)
    np.testing.assert_allclose(read.novelty(data.X_test), model.novelty(data.X_test), rtol=1e-5)


@pytest.fixture(scope="module")
def regions_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regions")
    return write_config(
        folder / "regions.toml", write_regions(folder / "regions.npz"), edges_per_tile=3, samples_per_slab=64
    )


@pytest.mark.quick("settings3-virtual")
@pytest.mark.parametrize("tensor", ["stored", "virtual"])
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("graph.family=bipartite", "graph.hubs=2", "model.class_weight=balanced"),
        ('model.class_weight={"class 1" = 5.0}', "model.coupling=bradley_terry", "model.whiten=none"),
        ("model.coupled_calibration=edges", "model.shortlist=3", "model.coupling=normal"),
        ("model.coupled_calibration=none", "model.fit_on=fold", "model.standardise=true"),
    ],
)
def test_weights_learned_through_the_coupling_are_those_of_the_estimator(
    settings, tensor, regions_file, client, tmp_path
):
    directory = tmp_path / "run"
    common = ("model.learn=coupled", "run.also_couple=[]", f"run.tensor={tensor}")
    plan = run_here(regions_file, directory, client, *common, *settings)
    data = load_data(plan.config).load()
    model, read = fitted(plan, data), PairwiseSVC.from_run(directory)
    assert model.learned_.iterations > 0
    assert read.learned_ == model.learned_
    for ours, theirs in zip(model.model_.learned.logits, read.model_.learned.logits, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    expected = model.predict_proba(data.X_test)
    np.testing.assert_array_equal(read.predict_proba(data.X_test), expected)
    np.testing.assert_allclose(probabilities_of(directory, plan.shape.couplings[0]), expected, atol=1e-6)


CODE_RUNS = [
    ("one_vs_rest", ("run.also_couple=['linear', 'closed_form']",)),
    ("one_vs_rest", ("model.fit_on=all", "model.coupled_calibration=edges")),
    ("one_vs_one", ("model.fit_on=fold",)),
    ("dense", ("graph.seed=3", "model.whiten=auto", "model.C=auto", "model.calibration=auto")),
    ("dense", ("model.machine_weight=counts", 'model.class_weight={"class 1" = 5.0}')),
    ("sparse", ("run.also_couple=['linear']", "model.calibration=distance")),
    # Zadrozny's coupling takes many steps to decide that it does not converge here.
    pytest.param(
        "sparse",
        ("run.also_couple=['zadrozny', 'linear']", "model.calibration=distance"),
        marks=pytest.mark.long,
    ),
    (
        "code",
        (
            "graph.matrix=[[1, 1, 0, 1], [-1, 1, 1, 0], [0, -1, 1, 1], [1, -1, -1, 0], [0, 0, -1, -1], [-1, 0, 1, -1]]",
        ),
    ),
]


def test_every_family_of_codes_is_tried():
    families = {row.values[0] if hasattr(row, "values") else row[0] for row in CODE_RUNS}
    assert families == set(CODE_FAMILIES)


@pytest.mark.quick("one_vs_rest-settings1", "one_vs_one-settings2", "dense-settings3", "code-settings7")
@pytest.mark.filterwarnings(
    "ignore:couple_code. method 'zadrozny' did not converge:sklearn.exceptions.ConvergenceWarning",
    "ignore:The scale of the coupled model:UserWarning",
)
@pytest.mark.parametrize(("family", "settings"), CODE_RUNS)
def test_machines_on_sets_of_classes_are_those_of_the_estimator(
    family, settings, config_file, client, tmp_path
):
    directory = tmp_path / "run"
    overrides = (
        f"graph.family={family}",
        "run.also_couple=[]",
        "run.edges_per_tile=2",
        "model.coupling=auto",
        *settings,
    )
    plan = run_here(config_file, directory, client, *overrides, until="report")
    data = load_data(plan.config).load()
    for coupling in plan.shape.couplings:
        model = fitted(plan, data, coupling=coupling)
        read = PairwiseSVC.from_run(directory, coupling=coupling)
        np.testing.assert_array_equal(model.code_, read.code_)
        for ours, theirs in zip(model.machines_, read.machines_, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert (model.C_, model.whiten_, model.calibration_) == (read.C_, read.whiten_, read.calibration_)
        assert read.scale_ == pytest.approx(model.scale_, rel=1e-4)
        if plan.config.model.coupled_calibration == "scale":
            model.model_ = replace(model.model_, coupled=read.model_.coupled)
        expected = model.predict_proba(data.X_test)
        np.testing.assert_allclose(probabilities_of(directory, coupling), expected, atol=1e-5)
        np.testing.assert_allclose(read.predict_proba(data.X_test), expected, atol=1e-5)
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    assert metrics["columns"] == plan.shape.n_edges
    assert '<section id="code">' in (directory / "report" / "index.html").read_text()


DENSE = (
    "graph.family=dense",
    "model.coupling=auto",
    "run.also_couple=['linear']",
    "run.edges_per_tile=2",
    "model.C=auto",
    "model.calibration=auto",
)


@pytest.fixture(scope="module")
def dense_bytes(config_file, client, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "dense"
    run_here(config_file, directory, client, *DENSE)
    return bytes_of(directory)


@pytest.mark.parametrize(
    "stage", ["candidates", "machines", "slopes", "held_out", "calibration", "probabilities"]
)
def test_a_run_on_sets_of_classes_resumes_to_the_same_bytes(
    stage, dense_bytes, config_file, client, tmp_path
):
    run_here(config_file, tmp_path / "halted", client, *DENSE, until=stage)
    units = sorted((tmp_path / "halted" / "ledger" / stage).iterdir())
    units[0].unlink()  # as if killed within the stage
    plan = run_here(config_file, tmp_path / "halted", client, *DENSE)
    assert plan.shape.code is not None
    assert_same_bytes(tmp_path / "halted", dense_bytes)


def test_pairs_are_weighted_alike_in_both(config_file, client, tmp_path):
    settings = ("graph.family=hub_neighbours", "model.coupling=bradley_terry", "model.machine_weight=counts")
    weights = ('model.class_weight={"class 1" = 5.0}', "run.also_couple=['normal']")
    for number, others in enumerate((("model.shortlist=3",), ("run.tensor=virtual",), ())):
        directory = tmp_path / f"run {number}"
        plan = run_here(config_file, directory, client, *settings, *weights, *others)
        data = load_data(plan.config).load()
        for coupling in ("bradley_terry", "normal"):
            expected = fitted(plan, data, coupling=coupling).predict_proba(data.X_test)
            np.testing.assert_allclose(probabilities_of(directory, coupling), expected, atol=1e-5)
    even = run_here(config_file, tmp_path / "even", client, *settings[:2], weights[0], "run.also_couple=[]")
    assert even.shape.couplings == ("bradley_terry",)
    unweighted = probabilities_of(tmp_path / "even", "bradley_terry")
    assert np.abs(unweighted - probabilities_of(tmp_path / "run 2", "bradley_terry")).max() > 1e-3


@pytest.mark.parametrize("coupling", ["bradley_terry", "linear"])
def test_from_run_on_sets_of_classes_predicts_what_pairloom_predict_does(
    coupling, config_file, client, tmp_path
):
    directory = tmp_path / "run"
    settings = ("graph.family=one_vs_rest", "model.coupling=auto", "run.also_couple=['linear']")
    run_here(config_file, directory, client, *settings, until="model")
    data = load_data(load_config(config_file)).load()
    np.savez(tmp_path / "new.npz", X=data.X_test)
    arguments = ["predict", directory, "--features", tmp_path / "new.npz", "--out", tmp_path / "p.npz"]
    done = CliRunner().invoke(main, [str(a) for a in [*arguments, "--coupling", coupling]])
    assert done.exit_code == 0, done.output
    model = PairwiseSVC.from_run(directory, coupling=coupling)
    with np.load(tmp_path / "p.npz") as archive:
        np.testing.assert_array_equal(archive["probabilities"], model.predict_proba(data.X_test))
    model.save(tmp_path / "model")
    again = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(data.X_test), model.predict_proba(data.X_test))


@pytest.mark.long
def test_the_plan_of_a_code_says_columns(config_file):
    settings = ["--set", "graph.family=dense", "--set", "model.coupling=auto", "--set", "run.also_couple=[]"]
    done = CliRunner().invoke(main, ["plan", str(config_file), *settings])
    assert done.exit_code == 0, done.output
    assert "10 columns of a code: machines on sets of classes" in done.output
    assert "columns each" in done.output
    assert "pairs" not in done.output


@pytest.fixture(scope="module")
def near_file(config_file, tmp_path_factory):
    """The same samples near zero, where polynomials do not lose all their digits."""
    folder = tmp_path_factory.mktemp("near")
    with np.load(load_config(config_file).data.features) as archive:
        arrays = dict(archive)
    for name in ("X_train", "X_test"):
        arrays[name] -= 1e6
    np.savez(folder / "near.npz", **arrays)
    return write_config(folder / "near.toml", folder / "near.npz", edges_per_tile=4, samples_per_slab=32)


KERNELS = {
    "rbf": ("model.gamma=0.05", "model.fit_on=all", "model.class_weight=balanced"),
    "sigmoid": ("model.gamma=0.05", "model.calibration=auto"),
    "poly": (
        "model.degree=2",
        "model.coef0=1.0",
        "model.thresholds=true",
        "model.C=[0.1, 1.0]",
    ),
}


@pytest.mark.quick("rbf-scale-stored", "sigmoid-edges-virtual", "poly-edges-stored", "poly-scale-virtual")
@pytest.mark.parametrize("tensor", ["stored", "virtual"])
@pytest.mark.parametrize("level", ["scale", "edges"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_machines_with_a_kernel_are_the_same_in_a_run(kernel, level, tensor, near_file, client, tmp_path):
    overrides = [f"run.tensor={tensor}", f"model.coupled_calibration={level}", "graph.family=hub_neighbours"]
    assert_same_kernel_model(kernel, overrides, "stratified", near_file, client, tmp_path)


@pytest.mark.quick("one_vs_rest-poly-scale", "dense-rbf-scale", "sparse-poly-edges")
@pytest.mark.parametrize("level", ["scale", "edges"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", ["dense", "sparse", "one_vs_rest"])
def test_so_are_machines_with_a_kernel_on_sets_of_classes(family, kernel, level, near_file, client, tmp_path):
    overrides = [f"graph.family={family}", "model.coupling=auto", f"model.coupled_calibration={level}"]
    assert_same_kernel_model(kernel, overrides, "bradley_terry", near_file, client, tmp_path)


def assert_same_kernel_model(kernel, overrides, coupling, near_file, client, tmp_path):
    """The same machines, support vectors, choices and probabilities as those of the estimator."""
    directory = tmp_path / "run"
    own = ["run.also_couple=[]", f"model.kernel={kernel}", *KERNELS[kernel]]
    plan = run_here(near_file, directory, client, *overrides, *own)
    data = load_data(plan.config).load()
    model, read = fitted(plan, data), PairwiseSVC.from_run(directory)
    assert read.model_.trained.kernel == model.model_.trained.kernel == plan.kernel
    for ours, theirs in zip(model.machines_, read.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(read.model_.trained.vectors, model.model_.trained.vectors)
    for name in ("C_", "whiten_", "calibration_"):
        assert getattr(model, name) == getattr(read, name)
    expected = model.predict_proba(data.X_test)
    np.testing.assert_allclose(probabilities_of(directory, coupling), expected, atol=1e-6)
    np.testing.assert_allclose(read.predict_proba(data.X_test), expected, atol=1e-6)
    read.save(tmp_path / "model")
    saved = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(saved.predict_proba(data.X_test), read.predict_proba(data.X_test))


@pytest.fixture(scope="module")
def rings_file(tmp_path_factory):
    """Three rings around each other, which no line separates, with columns in different units."""
    folder, random = tmp_path_factory.mktemp("rings"), np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(3), 80))
    angle, radius = random.uniform(0, 2 * np.pi, len(y)), 1 + y + 0.2 * random.standard_normal(len(y))
    X = np.column_stack([1000 * radius * np.cos(angle), radius * np.sin(angle)])
    parts = {"X_train": X[:160], "y_train": y[:160], "X_test": X[160:], "y_test": y[160:]}
    np.savez(folder / "rings.npz", **parts, classes=np.array(["inner", "middle", "outer"]))
    return write_config(folder / "rings.toml", folder / "rings.npz", edges_per_tile=2, samples_per_slab=32)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")  # rings are noise to a line
def test_a_run_chooses_the_kernel_and_the_units_that_the_estimator_does(rings_file, client, tmp_path):
    directory = tmp_path / "run"
    open_questions = (
        f"model.{name}=auto" for name in ("kernel", "standardise", "C", "whiten", "calibration")
    )
    plan = run_here(rings_file, directory, client, *open_questions, "run.also_couple=[]", until="report")
    data = load_data(plan.config).load()
    model, read = fitted(plan, data), PairwiseSVC.from_run(directory)
    assert read.model_.trained.kernel == model.model_.trained.kernel == plan.kernel
    assert plan.kernel.name == "rbf"
    assert read.model_.normalisation.deviation is not None
    assert {row["standardise"] for row in read.candidates_} == {False, True}
    assert (read.kernel_choice_, read.candidates_) == (model.kernel_choice_, model.candidates_)
    for name in ("C_", "calibration_", "coupling_"):
        assert getattr(read, name) == getattr(model, name)
    for ours, theirs in zip(model.machines_, read.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    expected = model.predict_proba(data.X_test)
    np.testing.assert_allclose(probabilities_of(directory, "stratified"), expected, atol=1e-6)
    page = (directory / "report" / "index.html").read_text()
    assert read.kernel_choice_ in page
    assert page.count("rbf, gamma") == sum(row["kernel"] == "rbf" for row in read.candidates_)
    assert f"rbf, gamma {plan.kernel.gamma:.4g}" in page


@pytest.fixture(scope="module")
def table_file(config_file, tmp_path_factory):
    """The same samples with columns in different units, one of them constant."""
    folder = tmp_path_factory.mktemp("table")
    with np.load(load_config(config_file).data.features) as archive:
        arrays = dict(archive)
    for name in ("X_train", "X_test"):
        scaled = (arrays[name] - 1e6) * [1e-6, 1.0, 1e5, 3.0, 70.0]
        arrays[name] = np.column_stack([scaled, np.full(len(scaled), 4.0)])
    np.savez(folder / "table.npz", **arrays)
    return write_config(folder / "table.toml", folder / "table.npz", edges_per_tile=4, samples_per_slab=32)


STANDARDISED = ("graph.family=hub_neighbours", "run.also_couple=[]", "model.standardise=true")


@pytest.mark.parametrize(
    "settings",
    [
        ("model.whiten=none",),
        ("model.whiten=auto", "model.C=auto", "model.calibration=auto", "run.tensor=virtual"),
        ("model.kernel=rbf",),
        ("model.kernel=poly", "model.coef0=1.0", "model.degree=2"),
        ("graph.family=one_vs_rest", "model.coupling=auto"),
    ],
)
def test_columns_are_standardised_alike_in_both(settings, table_file, client, tmp_path):
    directory = tmp_path / "run"
    plan = run_here(table_file, directory, client, *STANDARDISED, *settings)
    data = load_data(plan.config).load()
    model, read = fitted(plan, data), PairwiseSVC.from_run(directory)
    for ours, theirs in zip(model.machines_, read.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    one, other = model.model_.normalisation, read.model_.normalisation
    np.testing.assert_array_equal(one.deviation, other.deviation)
    assert one.deviation[-1] == 1.0  # the constant column
    expected = model.predict_proba(data.X_test)
    np.testing.assert_allclose(probabilities_of(directory, plan.shape.couplings[0]), expected, atol=1e-6)
    np.testing.assert_allclose(read.predict_proba(data.X_test), expected, atol=1e-6)
    read.save(tmp_path / "model")
    saved = PairwiseSVC.load(tmp_path / "model")
    assert saved.standardise is True
    np.testing.assert_array_equal(saved.predict_proba(data.X_test), read.predict_proba(data.X_test))


def test_a_standardised_run_resumes_to_the_same_bytes_and_can_be_made_from_another(
    table_file, client, tmp_path
):
    run_here(table_file, tmp_path / "whole", client, *STANDARDISED)
    reference = bytes_of(tmp_path / "whole")
    assert "features.zarr/deviation/c/0" in reference
    run_here(table_file, tmp_path / "halves", client, *STANDARDISED, until="draws")
    (tmp_path / "halves" / "features.zarr" / "deviation" / "c" / "0").unlink()
    run_here(table_file, tmp_path / "halves", client, *STANDARDISED)
    assert_same_bytes(tmp_path / "halves", reference)
    run_here(table_file, tmp_path / "plain", client, *STANDARDISED[:2])
    unscaled = bytes_of(tmp_path / "plain")
    run_here(table_file, tmp_path / "plain", client, *STANDARDISED, update=True)
    assert_same_bytes(tmp_path / "plain", reference)
    run_here(table_file, tmp_path / "plain", client, *STANDARDISED[:2], update=True)
    assert_same_bytes(tmp_path / "plain", unscaled)


def test_a_run_with_a_kernel_writes_the_same_bytes_twice_and_when_it_is_resumed(near_file, client, tmp_path):
    overrides = (
        "graph.family=hub_neighbours",
        "run.also_couple=[]",
        "model.kernel=rbf",
        "run.tensor=virtual",
    )
    run_here(near_file, tmp_path / "whole", client, *overrides)
    run_here(near_file, tmp_path / "halves", client, *overrides, until="machines")
    lost = tmp_path / "halves" / "machines.zarr" / "beta" / "c" / "1" / "0" / "0"
    lost.write_bytes(lost.read_bytes()[:-7])
    run_here(near_file, tmp_path / "halves", client, *overrides)
    assert_same_bytes(tmp_path / "halves", bytes_of(tmp_path / "whole"))


def test_classes_too_large_for_a_kernel_are_refused_before_anything_is_written(
    near_file, client, tmp_path, monkeypatch
):
    monkeypatch.setattr(gram_blocks, "MOST_ROWS", 47)
    message = (
        r"model\.kernel = 'rbf': the classes of one machine must have at most 47 training rows .* got 48\."
    )
    with pytest.raises(ValueError, match=message):
        run_here(near_file, tmp_path / "run", client, "model.kernel=rbf")
    assert not any(tmp_path.iterdir())


def test_another_kernel_takes_the_place_of_the_machines_that_are_there(near_file, client, tmp_path):
    common = ("graph.family=hub_neighbours", "run.also_couple=[]")
    run_here(near_file, tmp_path / "run", client, *common)
    run_here(near_file, tmp_path / "run", client, *common, "model.kernel=poly", update=True)
    run_here(near_file, tmp_path / "fresh", client, *common, "model.kernel=poly")
    assert_same_bytes(tmp_path / "run", bytes_of(tmp_path / "fresh"))


@pytest.fixture(scope="module")
def finished_run(config_file, client, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "finished"
    run_here(config_file, directory, client, "graph.family=hub_neighbours", until="model")
    return directory


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_from_run_predicts_what_pairloom_predict_does_to_the_bit(
    coupling, finished_run, config_file, tmp_path
):
    data = load_data(load_config(config_file)).load()
    np.savez(tmp_path / "new.npz", X=data.X_test)
    out = tmp_path / "p.npz"
    arguments = ["predict", finished_run, "--features", tmp_path / "new.npz", "--out", out]
    done = CliRunner().invoke(main, [str(a) for a in [*arguments, "--coupling", coupling]])
    assert done.exit_code == 0, done.output
    model = PairwiseSVC.from_run(finished_run, coupling=coupling)
    with np.load(out) as archive:
        np.testing.assert_array_equal(archive["probabilities"], model.predict_proba(data.X_test))
        assert archive["classes"].tolist() == model.classes_.tolist()


def test_a_run_is_saved_as_a_model_and_changed_as_one(finished_run, config_file, tmp_path):
    data = load_data(load_config(config_file)).load()
    labels = np.array(data.classes)[data.y_train]
    model = PairwiseSVC.from_run(finished_run)
    p = model.predict_proba(data.X_test)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(PairwiseSVC.load(tmp_path / "model").predict_proba(data.X_test), p)
    waves = list(model.grow(data.X_train, labels, pairs=len(model.edges_) + 2))
    assert waves[-1].pairs == len(model.edges_)
    model.remove_class("class 3")
    kept = labels != "class 3"
    model.add_class("class 3", data.X_train[~kept], data.X_train[kept], labels[kept])
    assert model.classes_.tolist() == list(data.classes)


def test_load_says_what_a_run_directory_is(finished_run):
    with pytest.raises(ValueError, match=r"is a run directory, not a saved model: use PairwiseSVC\.from_run"):
        PairwiseSVC.load(finished_run)


def test_from_run_says_what_is_missing(finished_run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a run directory: it has no run\.json"):
        PairwiseSVC.from_run(tmp_path)
    with pytest.raises(ValueError, match=r"coupling must be one of .*, the run's, got 'norml'"):
        PairwiseSVC.from_run(finished_run, coupling="norml")


STRATIFIED = ("graph.family=hub_neighbours", "run.also_couple=[]")


@pytest.fixture(scope="module")
def stratified(config_file, client, tmp_path_factory):
    """Probabilities of one coupling."""
    directory = tmp_path_factory.mktemp("runs") / "stratified"
    run_here(config_file, directory, client, *STRATIFIED)
    return probabilities_of(directory, "stratified")


@pytest.mark.parametrize("change", [lambda X: X * 2.0**-40, lambda X: X * 2.0**40, lambda X: X + 1e9 - 1e6])
def test_the_unit_and_the_place_of_the_features_do_not_matter_in_a_run(
    change, stratified, config_file, client, tmp_path
):
    original = load_config(config_file).data.features
    with np.load(original) as archive:
        arrays = dict(archive)
    for name in ("X_train", "X_test"):
        arrays[name] = change(arrays[name])
    np.savez(tmp_path / "other.npz", **arrays)
    run_here(config_file, tmp_path / "other", client, *STRATIFIED, f"data.features={tmp_path}/other.npz")
    other = probabilities_of(tmp_path / "other", "stratified")
    if change(1.0) in (2.0**-40, 2.0**40):
        np.testing.assert_array_equal(stratified, other)
    else:
        # Machines agree within the tolerance of the solver.
        np.testing.assert_allclose(stratified, other, atol=5e-3)
