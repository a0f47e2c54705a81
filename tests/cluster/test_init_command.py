"""pairloom init: a stranger's data in, a configuration that runs out."""

import csv
import json
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import load_config

HERE = ("--set", "cluster.kind=threads")


def pairloom(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flowers(n=90, seed=0):
    """Rows of a table as a person keeps it: a number, a remark, a gap, units that differ, and a class."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        c = i % 3
        row = {
            "id": i + 1,
            "length": f"{rng.normal(5 + c, 0.5):.2f}",
            "weight": f"{rng.normal(4000 + 900 * c, 500):.0f}",
            "remark": rng.choice(["fresh", "wilted"]),
            "width": f"{rng.normal(2 - c, 0.4):.2f}" if i % 30 else "",
            "species": ("setosa", "versicolor", "virginica")[c],
        }
        rows.append(row)
    return rows


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_table_becomes_a_run_and_the_run_predicts_new_tables(folder):
    write_csv(folder / "flowers.csv", flowers())
    done = pairloom("init", "flowers.csv", "--label", "species")
    assert done.exit_code == 0, done.output
    for line in (
        "flowers.csv: 90 rows, 6 columns",
        "label: species, 3 classes of 27 to 30 rows; the smallest is 'setosa'",
        "features: 3 columns of numbers",
        "id: id, which names the rows",
        "left out: remark (text, 2 different, such as",
        "missing values: 3 of 90 rows (width in 3); these rows are left out, in training and test alike",
        "so columns are standardised (model.standardise)",
        "rows are held out, 25% of every class, drawn with seed 0",
        "Wrote flowers.toml",
    ):
        assert line in done.stdout, done.stdout
    config = load_config("flowers.toml")
    assert config.data.columns == ("species", ("remark",), "leave_out_rows", "id")
    assert config.model.standardise
    ran = pairloom("run", "flowers.toml", *HERE, "--json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["methods"]["auto"]["accuracy"] > 0.8
    # New rows: other columns, another order, no label.
    new = [
        {"width": row["width"] or "1", "x": "?", "weight": row["weight"], "length": row["length"]}
        for row in flowers(30, 1)
    ]
    write_csv(folder / "new.csv", new)
    told = pairloom("predict", "runs/flowers", "--features", "new.csv", "--out", "out.csv")
    assert told.exit_code == 0, told.output
    assert "Warning" not in told.output
    with (folder / "out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert list(written[0]) == ["id", "prediction", "confidence", "setosa", "versicolor", "virginica"]
    assert [row["id"] for row in written] == [str(row) for row in range(30)]
    model = PairwiseSVC.from_run("runs/flowers")
    assert model.feature_names_in_.tolist() == ["length", "weight", "width"]
    X = np.array([[float(row[name]) for name in model.feature_names_in_] for row in new])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert [row["prediction"] for row in written] == model.predict(X).tolist()
    again = pairloom("predict", "runs/flowers", "--features", "new.csv", "--out", "out.csv")
    assert again.exit_code == 3
    assert "--out must be new, got out.csv, which exists. Pass --force to replace it." in again.stderr
    assert (
        pairloom("predict", "runs/flowers", "--features", "new.csv", "--out", "out.csv", "--force").exit_code
        == 0
    )
    samples = (folder / "new.csv").read_bytes()
    same = pairloom("predict", "runs/flowers", "--features", "new.csv", "--out", "./new.csv", "--force")
    assert same.exit_code == 3
    assert "--out must not be --features, got new.csv for both" in same.stderr
    assert (folder / "new.csv").read_bytes() == samples
    write_csv(folder / "odd.csv", [{"width": 1, "weight": 2}])
    refused = pairloom("predict", "runs/flowers", "--features", "odd.csv", "--out", "p.csv")
    assert refused.exit_code == 2
    assert "must have the columns of the training data, got none named 'length'" in refused.stderr


def test_rows_keep_their_ids_through_a_run_and_a_prediction(folder):
    """Ids in no order: the errors of the report are rows of the table with these ids and classes."""
    rows = flowers()
    for place, row in enumerate(rows):
        row |= {"id": f"plant-{(37 * place) % 90:02}", "length": row["width"] or "1"}
    write_csv(folder / "flowers.csv", rows)
    assert pairloom("init", "flowers.csv", "--label", "species", "--id", "id").exit_code == 0
    assert pairloom("run", "flowers.toml", *HERE).exit_code == 0
    by_id = {row["id"]: row for row in rows}
    with open("runs/flowers/report/errors.csv", newline="") as file:
        errors = list(csv.DictReader(file))
    assert errors
    assert all(by_id[error["id"]]["species"] == error["true_class"] for error in errors)
    page = (folder / "runs/flowers/report/index.html").read_text()
    assert f'class="choose-sample">{errors[0]["id"]}</button>' in page
    features = zarr.open_group("runs/flowers/features.zarr", mode="r")
    for ids, numbers in (("row", "train"), ("sample", "test")):
        lengths = [float(by_id[name]["length"]) for name in features[ids][:].tolist()]
        np.testing.assert_array_equal(features[numbers][:, 0], lengths)
    stored = zarr.open_group("runs/flowers/probabilities.zarr", mode="r")
    assert stored["sample"][:].tolist() == features["sample"][:].tolist()
    # The same rows, predicted again by the file, have the same probabilities under the same names.
    told = pairloom(
        "predict", "runs/flowers", "--features", "flowers.csv", "--out", "p.csv", "--bad-rows", "skip"
    )
    assert told.exit_code == 0, told.output
    with open("p.csv", newline="") as file:
        predicted = {row["id"]: float(row["setosa"]) for row in csv.DictReader(file)}
    for name, p in zip(stored["sample"][:].tolist(), stored["auto"][:, 0], strict=True):
        assert predicted[name] == pytest.approx(float(p), abs=1e-5)


def test_naming_a_column_of_ids_later_rewrites_the_report_and_trains_nothing(folder):
    write_csv(folder / "flowers.csv", flowers())
    assert pairloom("init", "flowers.csv", "--label", "species").exit_code == 0
    text = (folder / "flowers.toml").read_text()
    (folder / "flowers.toml").write_text(
        text.replace('id = "id"', "").replace('["remark"', '["id", "remark"')
    )
    assert pairloom("run", "flowers.toml", *HERE).exit_code == 0
    (folder / "flowers.toml").write_text(text)
    refused = pairloom("run", "flowers.toml", *HERE)
    assert refused.exit_code == 3
    assert "recompute ids, report" in refused.stderr
    assert pairloom("run", "flowers.toml", *HERE, "--update").exit_code == 0
    with open("runs/flowers/report/errors.csv", newline="") as file:
        assert all(1 <= int(error["id"]) <= 90 for error in csv.DictReader(file))


@pytest.fixture(scope="module")
def flower_run(tmp_path_factory):
    """A finished run on the flowers."""
    folder = tmp_path_factory.mktemp("flowers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_csv(folder / "flowers.csv", flowers())
        assert pairloom("init", "flowers.csv", "--label", "species").exit_code == 0
        assert pairloom("run", "flowers.toml", *HERE).exit_code == 0
    return folder / "runs" / "flowers"


NEW = "id,length,weight,width\n7,5,4000,2\n8,,4000,2\n9,6,much,1\n10,7,5800,0\n"


@pytest.mark.parametrize("bad_rows", ["empty", "skip", "refuse"])
def test_rows_that_cannot_be_predicted_are_named(bad_rows, flower_run, folder):
    (folder / "new.csv").write_text(NEW)
    done = pairloom("predict", flower_run, "--features", "new.csv", "--out", "p.csv", "--bad-rows", bad_rows)
    for line in (
        "2 of 4 rows cannot be predicted",
        "  8: column 'length' is empty",
        "  9: column 'weight' must be a number, got 'much'",
    ):
        assert line in done.stderr
    if bad_rows == "refuse":
        assert done.exit_code == 2
        assert not (folder / "p.csv").exists()
        return
    assert done.exit_code == 0
    with open("p.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert list(rows) == (["7", "10"] if bad_rows == "skip" else ["7", "8", "9", "10"])
    assert rows["7"]["prediction"] == "setosa"
    assert set(rows.get("8", {"x": ""}).values()) <= {"8", ""}


def test_a_file_without_any_row_to_predict_is_refused(flower_run, folder):
    (folder / "new.csv").write_text("length,weight,width\n,1,2\n")
    done = pairloom("predict", flower_run, "--features", "new.csv", "--out", "p.csv")
    assert done.exit_code == 2
    assert "  0: column 'length' is empty" in done.stderr
    assert not (folder / "p.csv").exists()


@pytest.mark.parametrize("top", [None, 2, 9])
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".zarr"])
def test_predictions_have_ids_confidences_and_the_likeliest_classes(ending, top, flower_run, folder):
    pandas = pytest.importorskip("pandas")
    (folder / "new.csv").write_text(NEW)
    options = [] if top is None else ["--top", top]
    done = pairloom("predict", flower_run, "--features", "new.csv", "--out", f"p{ending}", *options)
    assert done.exit_code == 0, done.output
    X = pandas.DataFrame({"length": [5.0, 7], "weight": [4000.0, 5800], "width": [2.0, 0]})
    model = PairwiseSVC.from_run(flower_run)
    p, k = model.predict_proba(X), min(top or 3, 3)
    likeliest = model.classes_[np.argsort(-p, axis=1)[:, :k]]
    largest = -np.sort(-p, axis=1)[:, :k]
    if ending in (".csv", ".parquet"):
        found = (pandas.read_csv if ending == ".csv" else pandas.read_parquet)(f"p{ending}").set_index("id")
        assert found.index.tolist() == [7, 8, 9, 10]
        assert found.loc[[8, 9]].isna().all(axis=None)
        kept = found.loc[[7, 10]]
        assert kept["prediction"].tolist() == likeliest[:, 0].tolist()
        np.testing.assert_allclose(kept["confidence"], largest[:, 0], rtol=1e-5)
        names = [f"p_{place}" for place in range(1, k + 1)] if top else model.classes_.tolist()
        np.testing.assert_allclose(kept[names].to_numpy(), largest if top else p, rtol=1e-5)
        assert top is None or kept["class_2"].tolist() == likeliest[:, 1].tolist()
        assert top is None or kept["rest"].tolist() == pytest.approx(1 - largest.sum(axis=1), abs=1e-6)
        return
    stored = zarr.open_group("p.zarr", mode="r") if ending == ".zarr" else np.load("p.npz")
    assert stored["sample" if ending == ".zarr" else "id"][:].tolist() == [7, 8, 9, 10]
    assert stored["prediction"][:].tolist() == [likeliest[0, 0], "", "", likeliest[1, 0]]
    assert np.isnan(stored["confidence"][:]).tolist() == [False, True, True, False]
    values = stored["top_probabilities" if top else "probabilities"][:]
    np.testing.assert_allclose(values[[0, 3]], largest if top else p, rtol=1e-5)
    assert not top or stored["top"][:][0].tolist() == likeliest[0].tolist()


@pytest.mark.long
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_predictions_go_from_standard_input_to_standard_output(ending, flower_run, folder):
    pandas = pytest.importorskip("pandas")
    (folder / "new.csv").write_text(NEW)
    table = pandas.DataFrame({"length": [5.0, 7], "weight": [4000.0, 5800], "width": [2.0, 0]}, index=[7, 10])
    table.rename_axis("id").reset_index().to_parquet("new.parquet")
    np.savez("new.npz", X=table.to_numpy(), ids=table.index)
    command = [sys.executable, "-m", "pairloom", "predict", str(flower_run), "--features", "-", "--out", "-"]
    with open(f"new{ending}", "rb") as file:
        done = subprocess.run([*command, "--top", "1", "--bad-rows", "skip"], stdin=file, capture_output=True)
    assert done.returncode == 0, done.stderr
    heading, *rows = done.stdout.decode().splitlines()
    assert heading == "id,prediction,confidence,class_1,p_1,rest"
    assert [row.split(",")[:2] for row in rows] == [["7", "setosa"], ["10", "virginica"]]


def test_a_column_of_ids_that_is_not_there_is_an_error(flower_run, folder):
    (folder / "new.csv").write_text(NEW)
    done = pairloom("predict", flower_run, "--features", "new.csv", "--out", "p.csv", "--id", "idd")
    assert done.exit_code == 2
    assert "--id must name a column, got 'idd'. Did you mean 'id'?" in done.stderr


def test_a_parquet_file_runs_as_a_csv_file_does(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    from pyarrow import csv as arrow_csv

    write_csv(folder / "flowers.csv", flowers())
    parquet.write_table(arrow_csv.read_csv(folder / "flowers.csv"), folder / "flowers.parquet")
    for name in ("flowers.csv", "flowers.parquet"):
        out = f"{name.partition('.')[2]}.toml"
        assert pairloom("init", name, "--label", "species", "--out", out).exit_code == 0
        assert pairloom("run", out, *HERE).exit_code == 0
    one, other = (
        json.loads((folder / "runs" / name / "run.json").read_text()) for name in ("csv", "parquet")
    )
    assert one["fingerprints"] == other["fingerprints"]


def arrays(n=40):
    y = np.repeat(np.arange(4), n // 4)
    return np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32) + y[:, None], y


def write_npz(folder):
    X, y = arrays()
    np.savez(folder / "pool.npz", X=X, y=y)
    return "pool.npz"


def write_npy(folder):
    X, y = arrays()
    (folder / "set").mkdir()
    for name, values in (("X_train", X), ("y_train", y), ("X_test", X[::2]), ("y_test", y[::2])):
        np.save(folder / "set" / f"{name}.npy", values)
    return "set/X_train.npy"


def write_zarr(folder):
    group = zarr.open_group(folder / "set.zarr", mode="w")
    for name, values in zip(("X", "y"), arrays(), strict=True):
        group.create_array(name, data=values)
    return "set.zarr"


@pytest.mark.quick(
    "write_npz-pool-test set: 8 rows are held out, 25% of every class",
    "write_zarr-set-test set: 8 rows are held out, 25% of every class",
)
@pytest.mark.parametrize(
    ("write", "name", "test_set"),
    [
        (write_npz, "pool", "test set: 8 rows are held out, 25% of every class"),
        (write_npy, "set", "test set: 20 rows, X_test of the data"),
        (write_zarr, "set", "test set: 8 rows are held out, 25% of every class"),
        (lambda folder: None, "digits", "test set: 450 rows are held out, 25% of every class"),
    ],
)
def test_arrays_and_nothing_become_runs_too(write, name, test_set, folder):
    source = write(folder)
    done = pairloom("init", *([source] if source else []))
    assert done.exit_code == 0, done.output
    assert test_set in done.stdout
    assert f"Wrote {name}.toml" in done.stdout
    ran = pairloom("run", f"{name}.toml", *HERE)
    assert ran.exit_code == 0, ran.output
    # From another folder the data are found as well.
    (folder / "elsewhere").mkdir()
    assert pairloom("init", *([source] if source else []), "--out", "elsewhere/x.toml").exit_code == 0
    assert load_config("elsewhere/x.toml").data == load_config(f"{name}.toml").data


@pytest.mark.long
def test_a_warning_reads_as_an_error_does(folder):
    X, y = arrays()
    np.savez(folder / "rare.npz", X=np.vstack([X, X[:1]]), y=[*y, 9])
    with pytest.warns(UserWarning, match="model: 1 of 5 classes have a single sample"):
        assert pairloom("init", "rare.npz").exit_code == 0
    words = [sys.executable, "-m", "pairloom", "plan", "rare.toml"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    assert "Warning: model: 1 of " in done.stderr
    assert ".py:" not in done.stderr


def test_a_pool_beside_a_test_set_is_refused_rather_than_split(folder):
    X, y = arrays()
    np.savez(folder / "both.npz", X=X, y=y, X_test=X[:5], y_test=y[:5])
    done = pairloom("init", "both.npz")
    assert done.exit_code == 2
    assert "got X and X_test. Rename X and y to X_train and y_train." in done.stderr


def test_every_comment_of_the_configuration_can_be_turned_on(folder):
    assert pairloom("init").exit_code == 0
    text = (folder / "digits.toml").read_text()
    on = [
        line.removeprefix("# ") if line.startswith("# ") and " = " in line.partition("#")[2] else line
        for line in text.splitlines()
        if "test =" not in line
    ]
    turned_on = [line for line in on if not line.startswith("#") and not line.endswith("held out")]
    lines = [line for line in turned_on if " = " in line or line.startswith("[")]
    tables = tomllib.loads("\n".join(line for line in lines if " =  " not in line))
    assert tables["model"]["folds"] == "auto"
    (folder / "all.toml").write_text("\n".join(line for line in lines if " =  " not in line))
    assert load_config("all.toml").model == load_config("digits.toml").model


def test_a_configuration_that_exists_is_kept_unless_forced(folder):
    assert pairloom("init").exit_code == 0
    (folder / "digits.toml").write_text("# mine\n")
    refused = pairloom("init")
    assert refused.exit_code == 3
    assert "digits.toml exists. Pass --force to replace it, or --out FILE" in refused.stderr
    assert (folder / "digits.toml").read_text() == "# mine\n"
    assert pairloom("init", "--force").exit_code == 0
    assert "[data]" in (folder / "digits.toml").read_text()


BAD = [
    ("", "must have a first line with the names of the columns"),
    ("a,b,kind\n", "must have rows, got none"),
    ("a,a,kind\n1,2,x\n", "got 'a' more than once"),
    ("a,b,sort\n1,2,x\n", "--label must name a column, got 'kind'"),
    ("a,b,kind\n1,2,x\n2,1,x\n3,4,x\n", "column 'kind' must have two classes or more, got 'x' in all 3 rows"),
    ("a,b,kind\n1,2,0.5\n2,1,0.25\n3,4,1\n", "must be classes, got numbers with fractions, such as 0.5"),
    (
        "a,kind\nred,x\nblue,y\n",
        "must have columns of numbers besides 'kind', got none: a: text, 2 different",
    ),
    ("a,b,kind\n1,2,x\n2,1,y\n3,5,z\n", "a class must have at least 2 samples"),
    (
        'a,b,c,d,kind\n"1,5","2,0","1,5","2,5",x\n"2,5","1,5","3,5","4,5",y\n',
        "and 1 more columns. Numbers must have a decimal point, not a comma.",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[repr(text) for text, _ in BAD])
def test_a_table_that_cannot_be_used_is_refused_and_nothing_is_written(text, message, folder):
    (folder / "t.csv").write_text(text)
    done = pairloom("init", "t.csv", "--label", "kind")
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


def test_names_that_are_no_names_of_runs_are_made_ones(folder):
    write_csv(folder / "my flowers (2).csv", flowers())
    assert pairloom("init", "my flowers (2).csv", "--label", "species").exit_code == 0
    config = load_config("my-flowers-2.toml")
    assert config.run.name == "my-flowers-2"
    assert config.data.features == str(folder / "my flowers (2).csv")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([f"S{i:03d}" for i in range(90)], "sku"),
        ([f"flower number {i}" for i in range(90)], None),
        (["S1"] * 2 + [f"S{i:03d}" for i in range(2, 90)], None),
    ],
    ids=["words", "sentences", "repetitions"],
)
def test_words_that_differ_in_every_row_name_them_if_no_column_has_the_name_of_an_id(folder, values, found):
    rows = [{name: row[name] for name in row if name != "id"} for row in flowers()]
    write_csv(
        folder / "flowers.csv", [{"sku": value, **row} for value, row in zip(values, rows, strict=True)]
    )
    done = pairloom("init", "flowers.csv", "--label", "species")
    assert done.exit_code == 0, done.output
    assert load_config("flowers.toml").data.id == found
    assert (f"id: {found}, which names the rows" if found else "id: no column names the rows") in done.stdout
