"""A parameter needs six files: one for its values and its setting, two for its doors, the page, the changelog, its use.

`max_iterations` of the machines is made a parameter in a copy of the package, which is then asked for it at both doors.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: By file: the line before which another is inserted.
EDITS = {
    "pipeline/model/settings.py": [
        ("Tolerance = Annotated", "Iterations = Annotated[int, Ge(1)]\n"),
        ('    "tol": Tolerance,\n', '    "max_iterations": Iterations,\n'),
        ("    shortlist: int | Literal", "    max_iterations: int = 10_000\n"),
    ],
    "pipeline/config/sections.py": [
        ("    Kernel,\n", "    Iterations,\n"),
        (
            "    random_state: int = Field(\n",
            '    max_iterations: Iterations = Field(10_000, description="sweeps of a machine")\n',
        ),
    ],
    "pipeline/estimator/pairwise_svc.py": [
        ("        memory_limit: int = DEFAULT_MEMORY,\n", "        max_iterations: int = 10_000,\n"),
        ("        self.memory_limit = memory_limit\n", "        self.max_iterations = max_iterations\n"),
        (
            "    random_state : int, RandomState or None, default=None\n",
            "    max_iterations : int, default=10_000\n        Sweeps of a machine.\n",
        ),
    ],
    "docs/parameters.md": [
        (
            "| `random_state` |",
            "| `max_iterations` | `model.max_iterations` | `10000` | sweeps of a machine |\n",
        )
    ],
}

#: What the copy must do. It plans a run, and fits nothing.
ASKED = """
from pairloom import PairwiseSVC
from pairloom.cluster.config.config_file import load_config
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.estimator.fit import _settings
from pairloom.pipeline.estimator.parameters import check_parameters
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.machines.kinds import LinearKind
from pairloom.pipeline.machines.normalisation import normalised_moments
from pairloom.pipeline.stages.planning import plan_run

def complaint(ask):
    try:
        ask()
    except (ConfigError, ValueError) as error:
        return str(error)

import pairloom
print(pairloom.__file__)
print(complaint(lambda: check_parameters(PairwiseSVC(max_iterations=0))))
print(complaint(lambda: load_config("digits", ["model.max_iterations=0"])))
estimator = PairwiseSVC(max_iterations=7, C=1.0, whiten="none", folds=2, random_state=0)
data, linear = open_features("digits"), ["model.kernel=linear", "model.standardise=false"]
moments = normalised_moments(data.moments, "X", standardise=False)
print(_settings(estimator, moments, LinearKind(), None).machines().max_iterations)
run, more = (plan_run(load_config("digits", [*linear, *also]), data) for also in ([], ["model.max_iterations=7"]))
print(more.settings.machines().max_iterations)
print(*(stage for stage in run.keys if run.keys[stage] != more.keys[stage]))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with one more parameter."""
    root = tmp_path_factory.mktemp("new_parameter") / "pairloom"
    root.mkdir()
    for folder in ("graphs", "pipeline", "cluster", "configs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "docs").mkdir()
    (root / "tests").mkdir()
    for file in ("__init__.py", "docs/parameters.md", "tests/test_parameters.py"):
        shutil.copy(ROOT / file, root / file)
    for file, insertions in EDITS.items():
        text = (root / file).read_text()
        for before, inserted in insertions:
            assert text.count(before) == 1, f"{file} has {before!r} once"
            text = text.replace(before, inserted + before)
        (root / file).write_text(text)
    return root


def python(package, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=package, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_parameter_is_added_in_six_files(package):
    changed = {*EDITS, "CHANGELOG.md", "the module that reads it"}
    assert len(changed) == 6
    imported, at_estimator, *at_configuration, of_estimator, of_run, stages = python(
        package, "-c", ASKED
    ).splitlines()
    assert Path(imported).parent == package
    assert at_estimator == "PairwiseSVC: max_iterations must be an integer of at least 1, got 0."
    assert "model.max_iterations must be an integer of at least 1, got 0." in " ".join(at_configuration)
    assert (of_estimator, of_run) == ("7", "7")
    assert stages.split() == [
        "candidates",
        "machines",
        "slopes",
        "held_out",
        "calibration",
        "model",
        "logits",
        "probabilities",
        "report",
    ]


@pytest.mark.long
def test_its_page_is_that_of_both_doors(package):
    assert "passed" in python(
        package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_parameters.py"
    )
