"""Tables: what is read of a CSV or Parquet file, compared with pandas, and what is refused."""

import decimal
import gzip
import re

import numpy as np
import pandas
import pytest

from pairloom.pipeline.features import tables
from pairloom.pipeline.features.feature_set import load_features, load_samples, open_features
from pairloom.pipeline.features.table_facts import look_at_table
from pairloom.pipeline.features.tables import TableColumns, class_labels, read_table


def frame(n=60, seed=0):
    """Numbers of several kinds, text, and three classes."""
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "length": rng.standard_normal(n).round(6),
            "count": rng.integers(0, 1000, n),
            "is, wet": rng.random(n) < 0.5,
            "place": rng.choice(["north", "south", 'the "far" east'], n),
            "kind": np.array(["b", "a", "c"])[np.arange(n) % 3],
        }
    )


FORMATS = {
    "t.csv": lambda table, path: table.to_csv(path, index=False),
    "t.csv.gz": lambda table, path: table.to_csv(path, index=False),
    "t.tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "semicolon.csv": lambda table, path: table.to_csv(path, index=False, sep=";"),
    "bom.csv": lambda table, path: table.to_csv(
        path, index=False, encoding="utf-8-sig", lineterminator="\r\n"
    ),
    "t.parquet": lambda table, path: table.to_parquet(path),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cells", [7, 2**18])
def test_every_format_gives_the_numbers_of_the_table(name, cells, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(tables, "_CELLS_PER_BLOCK", cells)
    table = frame()
    FORMATS[name](table, tmp_path / name)
    found = read_table(tmp_path / name, TableColumns("kind", ("place",)))
    assert found.names == ("length", "count", "is, wet")
    assert found.y.tolist() == table["kind"].tolist()
    np.testing.assert_array_equal(found.X.read(slice(None)), table[list(found.names)].to_numpy(np.float64))


def test_a_large_table_is_kept_in_a_file_and_read_in_any_order(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_CELLS_PER_BLOCK", 50)
    table = frame(n=200)
    table.to_csv(tmp_path / "t.csv", index=False)
    columns = TableColumns("kind", ("place",))
    small = open_features(str(tmp_path / "t.csv"), columns=columns)
    monkeypatch.setattr(tables, "_IN_MEMORY_BYTES", 1000)
    large = open_features(str(tmp_path / "t.csv"), columns=columns)
    assert large.fingerprints == small.fingerprints
    rows = np.array([5, 3, 100, 101, 0])
    np.testing.assert_array_equal(large.X_train.read(rows), small.X_train.read(rows))
    np.testing.assert_array_equal(large.load().X_test, small.load().X_test)


def test_a_table_is_split_as_a_pool_of_arrays_is(tmp_path):
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    np.savez(
        tmp_path / "t.npz", X=table[["length", "count"]].to_numpy(np.float64), y=table["kind"].to_numpy("U")
    )
    columns = TableColumns("kind", ("place", "is, wet"))
    one = load_features(str(tmp_path / "t.csv"), columns=columns, seed=3)
    other = load_features(str(tmp_path / "t.npz"), seed=3)
    np.testing.assert_array_equal(one.X_train, other.X_train)
    np.testing.assert_array_equal(one.y_test, other.y_test)
    assert one.classes == other.classes == ("a", "b", "c")


def test_a_long_text_is_a_class_or_a_column_like_any_other(tmp_path):
    long = "very " * 2000
    (tmp_path / "t.csv").write_text(f"a,note,kind\n1,{long},x\n2,short,{long}\n")
    found = read_table(tmp_path / "t.csv", TableColumns("kind", ("note",)))
    assert found.y.tolist() == ["x", long.strip()]
    with pytest.raises(ValueError, match="column 'note' must be numbers, got 'very "):
        read_table(tmp_path / "t.csv", TableColumns("kind"))


def test_the_columns_of_new_rows_are_found_by_name(tmp_path):
    table = frame()
    shuffled = table[["kind", "place", "count", "length"]].assign(new="anything")
    shuffled.to_csv(tmp_path / "new.csv", index=False)
    X = load_samples(str(tmp_path / "new.csv"), 2, ["length", "count"]).X
    np.testing.assert_array_equal(X, table[["length", "count"]].to_numpy(np.float64))
    with pytest.raises(
        ValueError, match=r"must have the columns of the training data, got none named 'width'"
    ):
        load_samples(str(tmp_path / "new.csv"), 2, ["length", "width"])


def test_new_rows_that_lack_numbers_are_named_and_the_others_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_CELLS_PER_BLOCK", 8)
    path = tmp_path / "new.csv"
    path.write_text("who,a,b\nann,1,2\nben,,4\n,5,six\ndan,7,8\neve,inf,1\n")
    found = load_samples(str(path), 2, ["a", "b"], ids="who")
    assert found.ids.tolist() == ["ann", "ben", "row 2", "dan", "eve"]
    assert found.problems == {
        1: "column 'a' is empty",
        2: "column 'b' must be a number, got 'six'",
        4: "column 'a' must be finite, got inf",
    }
    np.testing.assert_array_equal(found.X[found.whole], [[1, 2], [7, 8]])
    # Without a column of ids, rows have their numbers.
    assert load_samples(str(path), 2, ["a", "b"]).ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["7", "3", "12"], [7, 3, 12]),
        (["007", "3", "12"], ["007", "3", "12"]),
        (["-1", "3", "12"], ["-1", "3", "12"]),
        (["a b", "", "NA"], ["a b", "row 1", "NA"]),
    ],
)
def test_ids_are_counting_numbers_or_text(cells, expected, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,a,kind\n" + "".join(f"{cell},1,x\n" for cell in cells))
    assert read_table(path, TableColumns("kind", id="id")).ids.tolist() == expected


def test_rows_that_are_left_out_take_their_ids_with_them(tmp_path):
    (tmp_path / "t.csv").write_text("id,a,kind\n5,1,x\n6,,y\n7,3,\n8,4,y\n")
    columns = TableColumns("kind", missing="leave_out_rows", id="id")
    assert read_table(tmp_path / "t.csv", columns).ids.tolist() == [5, 8]
    assert read_table(tmp_path / "t.csv", columns._replace(id=None, leave_out=("id",))).ids.tolist() == [0, 3]
    with pytest.raises(ValueError, match=r"data\.id must name a column, got 'ids'\. Did you mean 'id'"):
        read_table(tmp_path / "t.csv", columns._replace(id="ids"))
    with pytest.raises(ValueError, match=r"data\.id must be another column than data\.label"):
        read_table(tmp_path / "t.csv", columns._replace(id="kind"))


def test_a_column_of_ids_is_found_by_its_name_and_content(tmp_path):
    rng = np.random.default_rng(0)
    table = frame(n=40).assign(patient_id=rng.permutation(40) + 500, valid_id=[1, 2] * 20)
    table.to_csv(tmp_path / "t.csv", index=False)
    facts = look_at_table(tmp_path / "t.csv", "kind")
    assert facts.id == "patient_id"  # which would be taken for a feature by its numbers alone
    assert "patient_id" not in {*facts.left_out, *(column.name for column in facts.features)}
    assert look_at_table(tmp_path / "t.csv", "kind", "place").id == "place"
    with pytest.raises(ValueError, match="--id must name a column other than the label, got 'kind'"):
        look_at_table(tmp_path / "t.csv", "kind", "kind")


def test_test_samples_may_be_another_table(tmp_path):
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    table[["kind", "count", "length"]][:7].to_csv(tmp_path / "test.csv", index=False)
    columns = TableColumns("kind", ("place", "is, wet"))
    data = load_features(str(tmp_path / "t.csv"), test=str(tmp_path / "test.csv"), columns=columns)
    np.testing.assert_array_equal(data.X_test, table[["length", "count"]][:7].to_numpy(np.float64))
    assert [data.classes[c] for c in data.y_test] == table["kind"][:7].tolist()


def test_renamed_columns_are_other_data(tmp_path):
    table = frame()[["length", "count", "kind"]]
    table.to_csv(tmp_path / "t.csv", index=False)
    table.rename(columns={"count": "height"}).to_csv(tmp_path / "u.csv", index=False)
    one, other = (
        open_features(str(tmp_path / name), columns=TableColumns("kind")) for name in ("t.csv", "u.csv")
    )
    assert one.fingerprints != other.fingerprints
    assert other.feature_names == ("length", "height")


def test_rows_with_missing_values_are_refused_or_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,kind\n1,2,x\n,2,y\n3,NA,x\n4,5,\n6,7,None\n8,9,x\n")
    with pytest.raises(
        ValueError, match=r"got 3 of 6 rows with missing ones, first line 3, column 'a'.*leave_out_rows"
    ):
        read_table(path, TableColumns("kind"))
    later = tmp_path / "later.csv"
    later.write_text("a,b,kind\n1,2,x\n1,,y\n,5,x\n")
    with pytest.raises(ValueError, match=r"first line 3, column 'b'"):
        read_table(later, TableColumns("kind"))
    found = read_table(path, TableColumns("kind", missing="leave_out_rows"))
    assert found.left_out == 3
    # None is a name like any other: only an empty cell is no class.
    assert found.y.tolist() == ["x", "None", "x"]
    np.testing.assert_array_equal(found.X.read(slice(None)), [[1, 2], [6, 7], [8, 9]])


REFUSED = [
    ("", "must have a first line with the names of the columns, and rows, got nothing"),
    ("\n\n", "must have a first line with the names of the columns"),
    ("a,b,kind\n", "must have rows, got none"),
    ("1,2,3\n4,5,6\n", "first line must name the columns, got numbers: '1', '2', '3'"),
    ("a,a,kind\n1,2,x\n", "every column must have a name of its own, got 'a' more than once"),
    ("a,b,kind\n1,2\n", "every row must have 3 cells, .* got 2 in line 2"),
    ("a,b,kind\n1,2,x\n1,2,x,y\n", "every row must have 3 cells, .* got 4 in line 3"),
    ("a,b,sort\n1,2,x\n", r"data\.label must name a column, got 'kind'.* The columns are 'a', 'b', 'sort'"),
    ("a,b,kind\n1,red,x\n", r"column 'b' must be numbers, got 'red' in line 2.*data\.leave_out = \['b'\]"),
    ("a,b,kind\n1,1_000,x\n", "column 'b' must be numbers, got '1_000'"),
    ("a,b,kind\n1,2,0.5\n", "column 'kind' must be classes, got numbers with fractions, such as 0.5"),
    ("kind\nx\ny\n", "must have columns of numbers besides the label, got none"),
    ("a,kind\n,x\n,y\n", "every cell must have a value, got 2 of 2 rows"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[repr(text) for text, _ in REFUSED])
def test_what_cannot_be_read_is_named(text, message, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(tmp_path / "t.csv", TableColumns("kind"))
    assert str(tmp_path / "t.csv") in str(caught.value)


def test_files_that_are_something_else_are_named(tmp_path):
    (tmp_path / "latin.csv").write_bytes("größe,kind\n1,x\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"must be text in UTF-8, got the byte 0xf6"):
        read_table(tmp_path / "latin.csv", TableColumns("kind"))
    (tmp_path / "t.csv.gz").write_bytes(b"a,kind\n")
    with pytest.raises(ValueError, match="is damaged or no CSV file"):
        read_table(tmp_path / "t.csv.gz", TableColumns("kind"))
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"a,kind\n" + b"1,x\n" * 10_000)[:-20])
    with pytest.raises(ValueError, match="is damaged or no CSV file"):
        read_table(tmp_path / "cut.csv.gz", TableColumns("kind"))
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"a,kind\n")
    with pytest.raises(ValueError, match="is damaged or no Parquet file"):
        read_table(tmp_path / "t.parquet", TableColumns("kind"))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda name: None)
    (tmp_path / "t.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r'pip install -e "\.\[parquet\]"'):
        read_table(tmp_path / "t.parquet", TableColumns("kind"))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["2", "10", "2"], [2, 10, 2]),
        (["2.0", "10.", "2.00"], [2, 10, 2]),
        (["007", "7"], ["007", "7"]),
        (["1", "one"], ["1", "one"]),
        (["-1", "+1"], [-1, 1]),
        ([3.0, 4.0], [3, 4]),
    ],
)
def test_whole_numbers_are_classes_in_the_order_of_numbers(labels, expected):
    assert class_labels(np.array(labels), "here").tolist() == expected


def test_parquet_has_its_own_types(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "f": pyarrow.array([1.5, None, float("nan"), 4.0]),
            "i": pyarrow.array([1, 2, 3, 4], pyarrow.int8()),
            "b": pyarrow.array([True, False, True, None]),
            "d": pyarrow.array(["1.10", "2.20", "3.30", "4.40"]).cast(pyarrow.decimal128(5, 2)),
            "t": pyarrow.array([0, 1, 2, 3], pyarrow.timestamp("s")),
            "kind": pyarrow.array([7, 8, 7, 8], pyarrow.uint8()).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    facts = look_at_table(tmp_path / "t.parquet", "kind")
    assert facts.classes == {"7": 2, "8": 2}
    assert facts.left_out.keys() == {"t", "i"}
    assert facts.left_out["t"].startswith("text, 4 different")
    assert facts.incomplete == 3
    found = read_table(tmp_path / "t.parquet", TableColumns("kind", ("t", "i"), "leave_out_rows"))
    np.testing.assert_array_equal(found.X.read(slice(None)), [[1.5, 1.0, 1.1]])
    assert found.y.tolist() == [7]


def test_a_look_finds_what_pandas_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_CELLS_PER_BLOCK", 64)
    table = frame(n=100).assign(row=np.arange(1, 101), same=3, empty="")
    table.loc[::9, "length"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    facts = look_at_table(tmp_path / "t.csv", "kind")
    assert facts.rows == 100
    assert facts.classes == table["kind"].value_counts().sort_index().to_dict()
    assert facts.left_out == {
        "place": "text, 3 different, such as " + repr(table["place"][0]),
        "row": "it numbers the rows",
        "same": "constant, 3",
        "empty": "empty",
    }
    assert facts.incomplete == table["length"].isna().sum()
    by_name = {column.name: column for column in facts.columns}
    for name in ("length", "count"):
        assert by_name[name].deviation == pytest.approx(table[name].std(ddof=0))
        assert (by_name[name].lowest, by_name[name].highest) == (table[name].min(), table[name].max())


def test_a_missing_label_names_columns_that_could_be_one(tmp_path):
    frame().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        ValueError, match=r"--label must name the column with the classes, got none"
    ) as caught:
        look_at_table(tmp_path / "t.csv", None)
    could_be = re.search(r"Columns that could be: (.*?)\. All columns", str(caught.value)).group(1)
    assert could_be.startswith("'place' (3 values), 'kind' (3 values)")
    numbered = frame().assign(Label=np.arange(len(frame())) % 30)
    numbered.to_csv(tmp_path / "numbered.csv", index=False)
    with pytest.raises(ValueError, match=r"Columns that could be: 'Label' \(30 values\), 'place'"):
        look_at_table(tmp_path / "numbered.csv", None)
    with pytest.raises(ValueError, match=r"--label must name a column, got 'kinds'\. Did you mean 'kind'\?"):
        look_at_table(tmp_path / "t.csv", "kinds")


def lines_of_three_classes():
    return ["a,b,kind", *(f"{i},{2 * i},{'xyz'[i % 3]}" for i in range(150))]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {76: '75,150,"x'},
            "the row that begins in line 77 cannot be read: a quote is opened and not closed",
        ),
        (
            {76: '75,"150,x'},
            "the row that begins in line 77 cannot be read: a quote is opened and not closed",
        ),
        ({76: '75,150,"x', 90: '89,178,y"'}, r"'kind' must be classes of one line, got 'x\\n76,152,y\\n"),
        ({76: '75,150,"x', 90: '89,178,"y"'}, "line 77 cannot be read: text follows a quote"),
        ({76: '75,150,"x"y'}, "line 77 cannot be read: text follows a quote"),
    ],
)
def test_a_quote_that_is_not_closed_is_an_error_that_names_its_line(changes, complaint, tmp_path):
    lines = lines_of_three_classes()
    for place, line in changes.items():
        lines[place] = line
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    for read in (
        lambda path: read_table(path, TableColumns("kind")),
        lambda path: look_at_table(path, "kind"),
    ):
        with pytest.raises(ValueError, match=complaint):
            read(tmp_path / "t.csv")


def test_quotes_within_cells_and_cells_of_several_lines_are_read(tmp_path):
    lines = ["a,note,kind", '1,"two\nlines, a ""word""",x', '2,5" wide,"y"', '3, "z" ,x'.replace(" ,x", ",x")]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    found = read_table(tmp_path / "t.csv", TableColumns("kind", ("note",)))
    assert found.y.tolist() == ["x", "y", "x"]


def test_a_line_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_LONGEST_LINE", 1000)
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(b"a,b,kind\n1,2,x\n" + b"1," * 100_000)
    with pytest.raises(ValueError, match="lines must have fewer than 1000 characters"):
        read_table(tmp_path / "t.csv.gz", TableColumns("kind"))


def parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    return path


def test_decimal_labels_keep_all_their_digits(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    digits = ["9007199254740992", "9007199254740993"]
    for scale, expected in ((0, [int(text) for text in digits]), (2, [f"{text}.00" for text in digits])):
        y = pyarrow.array([decimal.Decimal(text) for text in digits * 2], pyarrow.decimal128(20, scale))
        table = parquet(tmp_path / "t.parquet", a=[1.5, 2.0, 3.0, 4.0], y=y)
        assert read_table(table, TableColumns("y")).y.tolist() == expected * 2
        assert list(look_at_table(table, "y").classes) == list(map(str, expected))


def test_decimal_features_are_numbers(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    a = pyarrow.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3e5")], pyarrow.decimal128(20, 2))
    table = parquet(tmp_path / "t.parquet", a=a, y=["u", "v", "w"])
    found = read_table(table, TableColumns("y", missing="leave_out_rows"))
    assert found.X.read(slice(None)).tolist() == [[1.25], [-300000.0]]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, 2.0**53])
def test_float_labels_that_are_no_whole_numbers_of_float64_are_refused(value, tmp_path):
    table = parquet(tmp_path / "t.parquet", a=[1.0, 2.0], y=[1.0, value])
    with pytest.raises(ValueError, match=r"'y' must be classes, got .* among floats"):
        read_table(table, TableColumns("y"))
    assert read_table(parquet(table, a=[1.0], y=[2.0**53 - 1]), TableColumns("y")).y.tolist() == [2**53 - 1]


def test_a_parquet_file_that_claims_more_rows_than_its_bytes_hold_is_refused(tmp_path, monkeypatch):
    table = parquet(tmp_path / "t.parquet", a=np.zeros(100_000, np.int8), y=np.zeros(100_000, np.int8))
    assert tables.open_table(table).names == ("a", "y")
    monkeypatch.setattr(tables, "_MOST_EXPANSION", 100)
    with pytest.raises(ValueError, match="bytes cannot hold 100000 rows of 2 columns"):
        tables.open_table(table)
