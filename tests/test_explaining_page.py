"""The examples of docs/explaining.md run, and print what the page says."""

import re
from pathlib import Path

import matplotlib as mpl

PAGE = (Path(__file__).parents[1] / "docs" / "explaining.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(PRINTED,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def figures_of(text):
    return [float(number) for number in re.findall(r"[-+]?\d+\.\d+", text)]


def test_the_examples_print_what_the_page_says(capsys):
    mpl.use("Agg")
    names = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "explaining.md", "exec"), names)
    printed = capsys.readouterr().out
    # BLAS libraries differ in the last digit that is shown.
    assert re.sub(r"[-+]?\d+\.\d+", "#", printed) == re.sub(r"[-+]?\d+\.\d+", "#", PRINTED)
    for now, then in zip(figures_of(printed), figures_of(PRINTED), strict=True):
        assert abs(now - then) <= 0.02 * abs(then) + 0.005
    assert names["confusion"].confusion_matrix.sum() == 150
