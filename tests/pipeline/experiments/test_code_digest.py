"""The code that results depend on: what is imported, and nothing else."""

from pathlib import Path

import pytest

from pairloom.pipeline.experiments.code_digest import code_digest, reached_files
from pairloom.pipeline.experiments.perform import EXPERIMENTS

FILES = {
    "__init__.py": "",
    "graphs/__init__.py": "",
    "graphs/trees.py": '"""Trees."""\n\n\ndef path(n):\n    """A path."""\n    return n\n',
    "pipeline/__init__.py": "",
    "pipeline/measure.py": "from pairloom.graphs import trees\n",
    "pipeline/late.py": "def measure():\n    from pairloom.pipeline.measure import trees\n    return trees\n",
    "pipeline/other.py": "import pairloom.graphs.trees\n",
    "pipeline/alone.py": "import math\n",
}


@pytest.fixture
def digests(tmp_path):
    """Digests of the modules of a small package, in which files may be replaced."""
    numbers = iter(range(100))

    def of(**changed):
        root = tmp_path / str(next(numbers))
        for name, text in (
            FILES | {f"{k.replace('__', '/')}.py": text for k, text in changed.items()}
        ).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return {
            name: code_digest(f"pairloom.pipeline.{name}", root)
            for name in ("measure", "late", "other", "alone")
        }

    return of


def test_what_a_module_imports_counts_and_what_it_does_not_does_not(digests):
    before = digests()
    after = digests(graphs__trees="def path(n):\n    return n + 1\n")
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"measure", "late", "other"}


def test_words_do_not_count(digests):
    text = (
        '"""Trees of classes."""\n\n\ndef path(n):  # a tree, too\n    """Make a path."""\n\n    return n\n'
    )
    assert digests(graphs__trees=text) == digests()


def test_an_experiment_depends_on_the_solver_and_not_on_the_report():
    root = Path(__file__).parents[3]
    for experiment in EXPERIMENTS.values():
        names = {file.relative_to(root).as_posix() for file in reached_files(experiment.row.__module__, root)}
        assert not any(name.startswith(("pipeline/report/", "pipeline/stages/")) for name in names)
        if not experiment.simulated:
            assert "pipeline/machines/svm_kernels.py" in names
