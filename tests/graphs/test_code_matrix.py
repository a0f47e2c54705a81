import numpy as np
import pytest

from pairloom import graphs


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_any_dtype_of_real_numbers_becomes_int8_and_the_matrix_given_is_left_alone(dtype):
    given = graphs.one_vs_rest(4).astype(dtype)
    checked = graphs.check_code(given)
    assert checked.dtype == np.int8
    np.testing.assert_array_equal(checked, given)
    checked[0, 0] = 0
    assert given[0, 0] == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([1, -1], "must be a matrix (N, m) of at least 2 classes and 1 machine, got shape (2,)."),
        ([[1, 1]], "must be a matrix (N, m) of at least 2 classes and 1 machine, got shape (1, 2)."),
        (
            np.zeros((3, 0)),
            "must be a matrix (N, m) of at least 2 classes and 1 machine, got shape (3, 0).",
        ),
        ([[1, 2], [-1, -1]], "must be -1, 0 or +1, got code[0, 1] = 2."),
        ([[1.0, 1.0], [-1.0, np.nan]], "must be -1, 0 or +1, got code[1, 1] = nan."),
        ([[1, 0.5], [-1, -0.5]], "must be -1, 0 or +1, got code[0, 1] = 0.5."),
    ],
)
def test_shape_and_values(code, message):
    with pytest.raises(ValueError, match="code") as raised:
        graphs.check_code(code)
    assert str(raised.value) == f"check_code: code {message}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            [[1, 1, 0], [-1, 1, 1], [0, 0, 1]],
            "got none in column 1, 2. A machine needs classes on both sides",
        ),
        ([[1, -1], [-1, -1]], "every column of code must have a class at +1, got none in column 1"),
        ([[1, 0, 1], [-1, 1, -1], [0, -1, 0]], "but column 2 is column 0. Remove one"),
        (
            [[0, 1, 0], [1, -1, -1], [-1, 0, 1]],
            "but column 2 is column 0 with its sides exchanged. Remove one",
        ),
        ([[1], [-1], [0]], "every class must take part in a machine, got rows of zeros for class 2."),
        ([[1], [-1], [-1]], "but the rows of classes 1 and 2 are equal. Add a machine with the two"),
    ],
)
def test_codes_that_cannot_be_used_are_refused_with_the_numbers_of_columns_or_classes(code, message):
    with pytest.raises(ValueError, match="check_code: ") as raised:
        graphs.check_code(code)
    assert message in str(raised.value)


@pytest.mark.parametrize("code", [[["+", "-"]], [[1j, -1], [-1, 1]], [[True, False], [False, True]]])
def test_entries_that_are_no_real_numbers_are_a_type_error(code):
    with pytest.raises(TypeError, match="check_code: code must be a matrix of the numbers -1, 0 and"):
        graphs.check_code(code)


def test_rows_of_different_lengths():
    with pytest.raises(ValueError, match=r"^check_code: code must be a matrix \(N, m\)"):
        graphs.check_code([[1, -1], [1]])


def test_number_of_classes():
    with pytest.raises(ValueError, match="code must have one row for each of 5 classes, got 4 rows"):
        graphs.check_code(graphs.one_vs_rest(4), 5)


def test_the_code_of_a_model_graph_has_its_edges_as_columns():
    graph = graphs.bipartite(5, 2)
    code = graphs.code_of_pairs(graph)
    pairs = [(int(np.argmax(column)), int(np.argmin(column))) for column in code.T]
    assert pairs == [tuple(pair) for pair in graphs.edge_array(graph).tolist()]
    assert np.abs(code).sum(axis=0).tolist() == [2] * 6


def test_one_vs_one_is_the_code_of_the_complete_graph():
    np.testing.assert_array_equal(graphs.one_vs_one(6), graphs.code_of_pairs(graphs.complete(6)))
