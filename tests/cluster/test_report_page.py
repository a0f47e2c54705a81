"""The page of a report: what it says, and that names in it are data."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from small_runs import run_here, write_config, write_features

from pairloom import PairwiseSVC
from pairloom.cluster.commands.cli import main
from pairloom.graphs.text import csv_cell
from pairloom.pipeline.display.evaluation import confusion_counts
from pairloom.pipeline.run.run_log import driver_spans, worker_starts, write_forecast

NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "=HYPERLINK(1)",
    "-1",
    "+cmd|' /C calc'!A0",
    "@SUM(1)",
    "\ttab",
    "'=quoted",
    "</script><b>bold</b>",
    "two\nlines",
    "long " * 300,
    "&amp; &lt;",
]


class Page(HTMLParser):
    """What a browser would make of a page: elements, texts of tables, and values for the script."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.headings: list[str] = []
        self._open: list[str] = []
        self._table: list[list[str]] = []
        self._data = ""
        self.feed(self.text)
        self.data = json.loads(self._data)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append("data" if dict(attrs).get("id") == "data" else tag)
        if tag == "table":
            self._table = self.tables[dict(attrs)["id"]] = []
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")
        elif tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag):
        if self._open:
            self._open.pop()

    def handle_data(self, text):
        if "data" in self._open:
            self._data += text
        if "h2" in self._open:
            self.headings[-1] += text
        if {"td", "th"} & set(self._open):
            self._table[-1][-1] += text

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [values for name, values in self.tags if name == tag]


@pytest.fixture(scope="module")
def small_page(small_run) -> Page:
    return Page(small_run / "report" / "index.html")


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory, client) -> Path:
    """A run whose class names are markup and formulas."""
    folder = tmp_path_factory.mktemp("odd")
    features = write_features(folder / "odd.npz", classes=len(NAMES), rows=9, features=4, samples=60)
    with np.load(features) as archive:
        np.savez(features, **{**archive, "classes": np.array(NAMES)})
    config = write_config(folder / "odd.toml", features)
    run_here(config, folder / "run", client, until="report")
    return folder / "run"


def test_the_page_has_all_parts_of_a_run(small_page):
    assert small_page.headings == [
        "Coupling methods",
        "Reliability",
        "Errors against coverage",
        "Sets of classes",
        "None of these",
        "Most confident errors",
        "Labels that look wrong",
        "Confusion and separation",
        "Confused pairs",
        "Classes",
        "Model graph",
        "Data and model",
        "Time",
        "Configuration",
        "Warnings",
    ]


def test_a_graph_of_few_classes_has_their_names(small_page):
    marked = [
        values for tag, values in small_page.tags if tag == "text" and "of-class" in (values["class"] or "")
    ]
    assert len(marked) == 5
    assert small_page.text.count(">class 3</text>") == 1


def test_the_page_needs_no_other_file(small_page):
    assert not re.search(r"(src|href)=\"(?!data:|#)", small_page.text)
    assert not any(tag in ("link", "img", "iframe", "object", "base", "form") for tag, _ in small_page.tags)
    assert "url(" not in small_page.text.replace("url(#tint-", "")


def test_every_figure_has_an_alternative_in_words(small_page):
    figures = small_page.of("svg")
    assert len(figures) >= 5
    assert all(values["role"] == "img" and len(values["aria-label"]) > 40 for values in figures)


def test_ids_are_unique_and_every_link_has_a_target(small_page):
    ids = [values["id"] for _, values in small_page.tags if "id" in values]
    assert len(ids) == len(set(ids))
    assert {values["href"][1:] for values in small_page.of("a")} <= set(ids)


def test_the_table_of_methods_is_that_of_the_metrics(small_run, small_page):
    metrics = json.loads((small_run / "report" / "metrics.json").read_text())
    found = {row[0]: row[1:] for row in small_page.tables["table-methods"][1:]}
    assert list(found) == [*metrics["methods"], *metrics["baselines"]]
    scores = ("accuracy", "log_loss", "expected_calibration_error", "top_5_accuracy", "macro_f1")
    for method, cells in found.items():
        values = (metrics["methods"] | metrics["baselines"])[method]
        for score, cell in zip(scores, cells, strict=True):
            assert cell.startswith(f"{values[score]:.4f}" if score in values else "–")


def test_errors_against_coverage_are_those_of_the_probabilities(small_run, small_page):
    _, p, y = predictions(small_run)
    order = np.argsort(-p.max(axis=1), kind="stable")
    for coverage, samples, errors, confidence in small_page.tables["table-coverage"][1:]:
        some = order[: int(samples)]
        assert coverage == f"{len(some) / len(y):.0%}"
        assert errors == f"{(p.argmax(axis=1) != y)[some].mean():.4f}"
        assert confidence == f"{p.max(axis=1)[some].min():.4f}"


def predictions(directory: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test samples of a small run, their probabilities and labels, from its source and an estimator."""
    config = json.loads((directory / "run.json").read_text())["config"]
    with np.load(config["data"]["features"]) as archive:
        X, y = archive["X_test"], archive["y_test"]
    return X, PairwiseSVC.from_run(directory).predict_proba(X), y


def test_the_tables_count_what_an_estimator_predicts(small_run, small_page):
    _, p, y = predictions(small_run)
    confusion = confusion_counts(p, y)
    cells = np.array(small_page.data["maps"]["confusion"]["cells"]).reshape(-1, 3)
    counted = np.zeros_like(confusion)
    counted[cells[:, 0], cells[:, 1]] = cells[:, 2]
    np.testing.assert_array_equal(counted, confusion)
    rows = {row[0]: row for row in small_page.tables["table-classes"][1:]}
    for c in range(len(confusion)):
        assert rows[f"class {c}"][1] == f"{confusion[c, c] / confusion[c].sum():.3f}"
    with (small_run / "report" / "classes.csv").open(newline="") as file:
        found = {row["name"]: row for row in csv.DictReader(file)}
    assert [int(found[f"class {c}"]["test_samples"]) for c in range(5)] == confusion.sum(axis=1).tolist()
    with (small_run / "report" / "pairs.csv").open(newline="") as file:
        pairs = list(csv.DictReader(file))
    assert sum(int(row["i_as_j"]) + int(row["j_as_i"]) for row in pairs) == int((p.argmax(axis=1) != y).sum())


def test_the_critical_machine_is_the_pair_of_an_estimator(small_run, small_page):
    X, p, y = predictions(small_run)
    model = PairwiseSVC.from_run(small_run)
    errors = small_page.data["errors"]
    wrong = np.flatnonzero(p.argmax(axis=1) != y)
    assert {error["sample"] for error in errors} == set(wrong.tolist())
    confidence = [error["likeliest"][0][1] for error in errors]
    assert confidence == sorted(confidence, reverse=True)
    for error in errors:
        sample, found = error["sample"], error["critical"]
        assert found["way"] == "trained"
        assert (error["predicted"], error["label"]) == (p[sample].argmax(), y[sample])
        i, j = sorted(found["pair"])
        pair = model.pairs_[model.classes_[i], model.classes_[j]]
        logit = float(X[sample] @ pair.weights + pair.bias)
        assert found["logit"] == pytest.approx(
            logit if error["predicted"] == i else -logit, rel=1e-3, abs=2e-3
        )
        told = sum(one[2] for one in found["features"]) + found["rest"]
        assert told == pytest.approx(found["logit"], abs=0.02), "the contributions sum to the logit"


def test_a_pair_that_was_not_trained_is_explained_through_its_common_neighbours(tmp_path, client):
    features = write_features(tmp_path / "data.npz", classes=8, rows=20, features=5, samples=160)
    config = write_config(tmp_path / "run.toml", features)
    plan = run_here(
        config, tmp_path / "run", client, "graph.family=star", "graph.centre=3", "run.tensor=stored",
        "run.also_couple=[]", until="report",
    )  # fmt: skip
    page = Page(tmp_path / "run" / "report" / "index.html")
    completed = [error for error in page.data["errors"] if error["critical"]["way"] == "completed"]
    assert completed, "in a star, most pairs are completed"
    model = PairwiseSVC.from_run(tmp_path / "run")
    with np.load(features) as archive:
        X = archive["X_test"]
    for error in completed:
        assert error["critical"]["through"] == 1
        x, by_centre = X[error["sample"]], {}
        for (a, b), pair in model.pairs_.items():
            other = a if b == "class 3" else b
            logit = float(x @ pair.weights + pair.bias)
            by_centre[other] = logit if a == other else -logit
        names = plan.shape.classes
        expected = by_centre[names[error["predicted"]]] - by_centre[names[error["label"]]]
        assert error["critical"]["pairLogit"] == pytest.approx(expected, rel=1e-3, abs=5e-3)


def test_the_critical_machine_on_sets_of_classes_separates_the_two(tmp_path, client):
    features = write_features(tmp_path / "data.npz", classes=6, rows=20, features=5, samples=120)
    config = write_config(tmp_path / "run.toml", features)
    plan = run_here(
        config,
        tmp_path / "run",
        client,
        "graph.family=dense",
        "model.coupling=auto",
        "run.also_couple=[]",
        until="report",
    )
    page = Page(tmp_path / "run" / "report" / "index.html")
    assert "Code" in page.headings
    assert page.data["errors"]
    for error in page.data["errors"]:
        found = error["critical"]
        column = plan.shape.code[:, found["column"]]
        assert column[error["label"]] * column[error["predicted"]] == -1
        assert found["sizes"] == [(column == 1).sum(), (column == -1).sum()]
        told = sum(one[2] for one in found["features"]) + found["rest"]
        assert told == pytest.approx(found["logit"], abs=0.02)


KERNEL = ("model.kernel=rbf", "model.whiten=none")


@pytest.mark.quick("star", "kernel", "kernel on sets")
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("graph.family=star", "graph.centre=3"),
        ("graph.family=path",),
        KERNEL,
        ("graph.family=dense", "model.coupling=auto", *KERNEL),
    ],
    ids=["linear", "star", "path", "kernel", "kernel on sets"],
)
def test_errors_are_explained_as_the_model_explains_them(settings, tmp_path, client):
    features = write_features(tmp_path / "data.npz", classes=5, rows=16, features=5, samples=60)
    config = write_config(tmp_path / "run.toml", features)
    run_here(config, tmp_path / "run", client, *settings, "run.also_couple=[]", until="report")
    errors = Page(tmp_path / "run" / "report" / "index.html").data["errors"]
    model = PairwiseSVC.from_run(tmp_path / "run")
    with np.load(features) as archive:
        X = archive["X_test"]
    assert errors
    for error in errors:
        why = model.explain(X[error["sample"]], *model.classes_[[error["predicted"], error["label"]]])
        own, moved = error["own"], error["moved"]
        assert own["route"] == why.route
        assert (own["logit"] is None) == (why.route == "none")
        if own["logit"] is not None:
            assert own["logit"] == pytest.approx(why.logit, rel=1e-3, abs=1e-3)
        assert moved["odds"] == pytest.approx(why.odds, rel=1e-3, abs=1e-3)
        effects = [effect for _, _, effect in moved["machines"]]
        assert effects == pytest.approx(why.pairs.effects[why.pairs.largest(6)], rel=1e-3, abs=1e-3)
        assert sum(effects) + moved["rest"] == pytest.approx(moved["odds"], abs=0.02)
        assert ("critical" in error) == ("model.kernel=rbf" not in settings and why.route != "potentials")
        told = sum(part for _, _, part in own["vectors"]) + own["rest"]
        if "model.kernel=rbf" in settings:
            assert own["vectors"]
            assert told == pytest.approx(moved["odds"] if own["logit"] is None else own["logit"], abs=0.02)


def test_markup_in_class_names_is_text(odd_run):
    page = Page(odd_run / "report" / "index.html")
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"img", "b"}
    assert len(page.of("script")) == 2, "the data and the script of the page"
    assert not any(name.startswith("on") for _, values in page.tags for name in values)
    assert NAMES[0] in page.data["names"]
    shown = {row[0] for row in page.tables["table-classes"][1:]}
    assert {NAMES[0], NAMES[1], NAMES[2], NAMES[8], "two lines", NAMES[11]} <= shown
    assert max(map(len, shown)) <= 80, "a long name is cut"


def test_only_the_script_of_the_page_may_run(small_page):
    (policy,) = (
        values["content"]
        for values in small_page.of("meta")
        if values.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'$", policy)


def test_formulas_in_class_names_are_text_in_every_csv_and_can_be_read_back(odd_run):
    files = sorted((odd_run / "report").glob("*.csv"))
    assert [file.name for file in files] == ["classes.csv", "errors.csv", "methods.csv", "pairs.csv"]
    for file in files:
        for row in csv.reader(io.StringIO(file.read_text())):
            for cell in row:
                assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
                assert not cell.startswith("-") or float(cell) < 0
    with (odd_run / "report" / "classes.csv").open(newline="") as file:
        found = [row["name"] for row in csv.DictReader(file)]
    assert found == [csv_cell(name) for name in sorted(NAMES)]
    assert [read_back(cell) for cell in found] == sorted(NAMES)


def read_back(cell: str) -> str:
    """As docs/runs.md says."""
    prefixed = cell.startswith("'") and cell.lstrip("'")[:1] in "=+-@\t\r\n＝＋－＠"
    return cell[1:] if prefixed else cell


@pytest.fixture
def copied_run(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "small")
    return tmp_path / "small"


def test_warnings_in_the_log_are_in_the_page(copied_run, small_config, client):
    stamp = "2026-11-17T09:00:00.000+00:00 host:1"
    with (copied_run / "log.txt").open("a") as log:
        log.write(f"{stamp} warning UserWarning: two <b>lines\nof text\n{stamp} begin nothing 0\n")
        log.write(f"{stamp} warning UserWarning: often\n" * 3)
    shutil.rmtree(copied_run / "report")
    run_here(small_config, copied_run, client, until="report")
    page = (copied_run / "report" / "index.html").read_text()
    told = page[page.index('<section id="warnings">') : page.index("</main>")]
    assert told.count("<li>") == 2
    assert "<li>UserWarning: often <small>(3 times)</small></li>" in told
    assert "<li>UserWarning: two &lt;b&gt;lines\nof text</li>" in told
    assert "2 warnings: see the end of the page." in page


def test_warnings_of_planning_are_in_the_page_of_every_run_also_after_a_resume(tmp_path, client):
    features = write_features(tmp_path / "data.npz", classes=4, rows=20, features=5, samples=40)
    with np.load(features) as archive:
        rare = np.flatnonzero(archive["y_train"] == 3)[1:]
        fewer = {name: np.delete(archive[name], rare, axis=0) for name in ("X_train", "y_train")}
        np.savez(features, **{**archive, **fewer})
    config = write_config(tmp_path / "run.toml", features)
    warned = "<li>UserWarning: model: 1 of 4 classes have a single sample"
    for name in ("first", "second"):
        for stage in ("probabilities", "report"):
            with pytest.warns(UserWarning, match="have a single sample"):
                run_here(config, tmp_path / name, client, "run.also_couple=[]", until=stage)
        page = (tmp_path / name / "report" / "index.html").read_text()
        assert page.count(warned) == 1
        assert "1 warning: see the end of the page." in page
        assert "times)</small></li>" not in page


def test_the_page_is_the_same_when_it_is_made_again(copied_run, small_config, client):
    before = {path.name: path.read_bytes() for path in (copied_run / "report").iterdir()}
    shutil.rmtree(copied_run / "report")
    run_here(small_config, copied_run, client, until="report")
    assert {path.name: path.read_bytes() for path in (copied_run / "report").iterdir()} == before


def test_pairloom_report_writes_the_same_page_again(copied_run):
    before = {path.name: path.read_bytes() for path in (copied_run / "report").iterdir()}
    assert json.loads(before["metrics.json"])["elapsed_seconds"]["machines"] > 0
    assert CliRunner().invoke(main, ["report", str(copied_run)]).exit_code == 0
    assert {path.name: path.read_bytes() for path in (copied_run / "report").iterdir()} == before


def test_the_time_of_a_run_is_that_of_its_drivers(tmp_path):
    (tmp_path / "drivers").mkdir()
    moments = {"since": ("00", "30", "50", "58"), "ended": (None, "40", "59", None)}
    outcomes = (None, "cancelled", "refused", None)
    for place, (since, ended, outcome) in enumerate(zip(*moments.values(), outcomes, strict=True)):
        record = {
            "since": f"2026-11-17T09:00:{since}+00:00",
            "ended": ended and f"2026-11-17T09:00:{ended}+00:00",
            "outcome": outcome,
        }
        (tmp_path / "drivers" / f"{place + 1:04d}.json").write_text(json.dumps(record))
    said = {
        "01.5": "connecting",
        "09.0": "begin machines 0",
        "20.0": "begin machines 1",
        "31.0": "begin machines 1",
    }
    log = "".join(f"2026-11-17T09:00:{second}00+00:00 h:1 {line}\n" for second, line in said.items())
    (tmp_path / "log.txt").write_text(log)
    begin = datetime.fromisoformat("2026-11-17T09:00:00+00:00").timestamp()
    spans = [(since - begin, until - begin) for since, until in driver_spans(tmp_path, begin + 59.5)]
    assert spans == [(0.0, 20.0), (30.0, 41.0), (58.0, 59.5)], "the first was killed, the third refused"
    assert [(since - begin, until - begin) for since, until in worker_starts(tmp_path)] == [(1.5, 9.0)]


def test_drivers_that_began_in_the_same_second_follow_each_other(tmp_path):
    (tmp_path / "drivers").mkdir()
    for place, ended in enumerate(("2026-11-17T09:00:00+00:00", None)):
        record = {"since": "2026-11-17T09:00:00+00:00", "ended": ended, "outcome": "stopped"}
        (tmp_path / "drivers" / f"{place}.json").write_text(json.dumps(record))
    (tmp_path / "log.txt").write_text("")
    begin = datetime.fromisoformat("2026-11-17T09:00:00+00:00").timestamp()
    assert driver_spans(tmp_path, begin + 5) == [(begin, begin + 5)]


def test_planned_times_are_in_the_page_of_a_run_with_a_forecast(copied_run, client, small_config):
    write_forecast(copied_run, {"machines": (2.0, 4.0)})
    shutil.rmtree(copied_run / "report")
    run_here(small_config, copied_run, client, until="report")
    stages = Page(copied_run / "report" / "index.html").tables["table-stages"]
    assert stages[0][1] == "planned"
    assert {row[0]: row[1] for row in stages}["machines"] == "2.0 to 4.0 s"


def test_the_time_of_a_stage_of_two_drivers_is_not_known(copied_run, client, small_config):
    # The driver that began the run was not recorded; one that came before its last unit of machines is.
    lines = [line.split() for line in (copied_run / "log.txt").read_text().splitlines()]
    begun = sorted(words[0] for words in lines if words[2:4] == ["begin", "machines"])
    record = {"host": "h", "pid": 1, "process_start": 0.0, "since": begun[-1], "ended": None, "outcome": None}
    (copied_run / "drivers").mkdir()
    (copied_run / "drivers" / "0001.json").write_text(json.dumps(record))
    shutil.rmtree(copied_run / "report")
    run_here(small_config, copied_run, client, until="report")
    took = json.loads((copied_run / "report" / "metrics.json").read_text())["elapsed_seconds"]
    assert "machines" not in took
    assert took["statistics"] >= 0
