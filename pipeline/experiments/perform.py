"""The experiments by name, and the function that runs one on a set: train or read the tensor, measure, write, print."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from pairloom.pipeline.experiments import (
    bipartite,
    boundaries,
    curved,
    diameters,
    disagreements,
    elementwise,
    encodings,
    few_classes,
    gaussians,
    growth_curves,
    many_classes,
    mixtures,
    simulated_encodings,
    star_centres,
)
from pairloom.pipeline.experiments.code_digest import code_digest
from pairloom.pipeline.experiments.experiment import (
    Experiment,
    Item,
    Result,
    Row,
    cells,
    heading,
    write_files,
)
from pairloom.pipeline.experiments.finding import Finding
from pairloom.pipeline.experiments.network_answers import NetworkAnswers, adapted_set, pictures_digest
from pairloom.pipeline.experiments.trained_tensor import (
    TensorFile,
    TrainedTensor,
    cached_tensor,
    is_present,
    load_set,
    machine_settings,
    source_named,
    tensor_file,
)
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.threads import one_blas_thread

#: The experiments by name, in the order of the paper, then those of other papers. Each has its own type of rows.
EXPERIMENTS: dict[str, Experiment[Any]] = {
    experiment.name: experiment
    for experiment in (
        few_classes.TRIPLETS,
        few_classes.QUINTETS,
        few_classes.TEN_CLASS,
        star_centres.STAR_CENTRES,
        growth_curves.EXPERIMENT,
        star_centres.CENTRES,
        bipartite.EXPERIMENT,
        many_classes.EXPERIMENT,
        diameters.EXPERIMENT,
        disagreements.EXPERIMENT,
        boundaries.EXPERIMENT,
        elementwise.EXPERIMENT,
        mixtures.EXPERIMENT,
        gaussians.EXPERIMENT,
        simulated_encodings.EXPERIMENT,
        encodings.EXPERIMENT,
        curved.EXPERIMENT,
    )
}

#: `adapted`: experiments that are repeated on adapted features, and their default sets, if present.
ADAPTED = ("ten-class", "growth", "centres", "bipartite")
ADAPTED_SETS = ("imagenette", "tinyimagenet50")


class RepeatOnCluster(Protocol):
    """Yields ``function(trained, item)`` for each item, in order, computed by other processes.

    They read the trained tensor from its file.
    """

    def __call__(
        self, function: Callable[[TrainedTensor, Item], Result], file: TensorFile, items: Sequence[Item], /
    ) -> Iterable[Result]: ...


def sets_for(experiment: Experiment[Any], named: Sequence[str] = (), full: bool = False) -> list[str]:
    """The named sets; without names, the experiment's sets that are present, including large ones at the full setting.

    Empty if the experiment reads tables and none of them is present.
    """
    if experiment.tables and not any(is_present(table) for table in experiment.tables):
        return []
    usual = (*experiment.data, *(experiment.full_data if full else ()))
    return list(named) or [name for name in usual if is_present(name)]


def perform(
    experiment: Experiment[Row],
    data: str,
    out: Path,
    *,
    repetitions: int | None = None,
    full: bool = False,
    seed: int = 0,
    pictures: Path | None = None,
    console: Console | None = None,
    on_cluster: RepeatOnCluster | None = None,
    resume: bool = False,
    machines: str = "ours",
    adapted: bool = False,
) -> list[Path]:
    """Run an experiment on a set, write its files into a folder with the name of the set, and return their paths.

    The name of the folder also names machines other than ours, and adapted features: tinyimagenet50.paper.

    Parameters
    ----------
    experiment : Experiment
    data : str
        Name of a set, or path of its features.
    out : Path
    repetitions : int, optional
        Maximum number of repetitions. If there are fewer sets of classes to draw, each is used once. The default is the
        experiment's own number.
    full : bool
        Whether the default is the number of the full setting, which is the paper's.
    seed : int
        Seed of the draws. The folds of the machines have their own seed, so one tensor serves every seed.
    pictures : Path, optional
        The folder of the pictures from which the features were made; figures then show them.
    console : rich.console.Console, optional
        Console for the table. By default nothing is printed.
    on_cluster : callable, optional
        Computes the repetitions in other processes, with the same results. By default this process computes them.
    resume : bool
        Do nothing, and return no paths, if the files exist already, for the same data, settings and code.
    machines : {"ours", "paper", "paper-radial"}
        Whose machines are trained: see `trained_tensor.MACHINES`.
    adapted : bool
        Whether features are the hidden layer of a network that was trained on the classes: see `network_answers`.
    """
    printed = console or Console(quiet=True)
    messages = Console(stderr=True, quiet=console is None)
    features = load_set(data)
    folder = out / ".".join(
        [Path(data).stem, *(["adapted"] if adapted else []), *([] if machines == "ours" else [machines])]
    )
    answers = None
    if adapted:
        features, answers = adapted_set(features, folder / "adapted.npz")
    settings, radial = machine_settings(features.X_train, machines), machines == "paper-radial"
    times = repetitions or experiment.usual_repetitions(len(features.classes), full)
    source = _source(data)
    made_of = [features.fingerprints, pictures_digest(source), str(pictures and pictures.absolute())]
    code = code_digest(experiment.row.__module__)
    recipe = digest_of([experiment.name, times, seed, settings.__dict__, radial, made_of, code])
    if resume and _recipe_in(folder / f"{experiment.name}.json") == recipe:
        messages.print(f"{experiment.name}, {folder.name}: measured already", highlight=False)
        return []
    path = (folder / "tensor.npz").absolute()
    trained = _trained(features, settings, path, source, messages, radial=radial, answers=answers)._replace(
        pictures=pictures
    )
    steps_taken: list[int] = []

    def each(
        function: Callable[[TrainedTensor, Item], Result], trained: TrainedTensor, items: Sequence[Item]
    ) -> list[Result]:
        steps_taken.append(len(items))
        results: Iterable[Result]
        if on_cluster is None or not experiment.is_repeated:
            results = (function(trained, item) for item in items)
        else:
            file = tensor_file(path, features, settings, source, radial=radial)
            results = on_cluster(function, file, items)
        name = f"{experiment.name}, {folder.name}"
        return list(track(results, name, len(items), console=messages, transient=True))

    began = time.perf_counter()
    # With several BLAS threads, the rounding of products would depend on the number of cores.
    with one_blas_thread():
        more = {"source": source} if experiment.retrains else {}
        measurement = experiment.measure(trained, times, seed, each, **more)
        rows, findings = experiment.rows(measurement), experiment.findings(measurement)
    facts = {
        "data": folder.name,
        # The arguments of --data and --pictures without their folders, which do not exist on other computers.
        "source": Path(data).name,
        "pictures": pictures and pictures.name,
        # There may be fewer than requested: for example, there are only 120 ways to draw three of ten classes.
        "repetitions": steps_taken[0] if experiment.is_repeated else 1,
        "seed": seed,
        "seconds": round(time.perf_counter() - began, 1),
        "recipe": recipe,
        "code": code[:10],
        "machines": machines,
        "adapted": adapted,
        **_circumstances(features, settings),
    }
    files = write_files(experiment, trained, rows, findings, facts, folder)
    _print(experiment, rows, findings, folder.name, printed)
    printed.print(f"{facts['seconds']:g} s", highlight=False)
    return files


def _recipe_in(path: Path) -> str | None:
    """The digest in a record of everything on which its files depend, including the code; None without a record."""
    try:
        recipe = json.loads(path.read_text()).get("recipe")
    except (OSError, ValueError):
        return None
    return recipe if isinstance(recipe, str) else None


def _circumstances(features: FeatureSet, settings: MachineSettings) -> dict[str, Any]:
    """Facts about the data, the machines and the computer, for readers of the results."""
    return {
        "synthetic": features.synthetic,
        "classes": len(features.classes),
        "training samples": len(features.X_train),
        "test samples": len(features.X_test),
        "features": features.X_train.shape[1],
        "settings": {
            "C": f"{settings.C:.3g}",
            "folds": settings.folds,
            "fit_on": settings.fit_on,
            "calibration": settings.calibration,
        },
        "date": datetime.now(UTC).date().isoformat(),
        "computer": computer(),
    }


def _source(data: str) -> str:
    """The name of a set for other processes: files have absolute paths."""
    source = source_named(data)
    return source if source in EMBEDDED else str(Path(source).absolute())


def _trained(
    features: FeatureSet,
    settings: MachineSettings,
    path: Path,
    source: str,
    console: Console,
    *,
    radial: bool,
    answers: NetworkAnswers | None,
) -> TrainedTensor:
    n = len(features.classes)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("training all pairs", total=n * (n - 1) // 2)
        return cached_tensor(
            features,
            settings,
            path,
            lambda edges: progress.advance(task, edges),
            source,
            radial=radial,
            answers=answers,
        )


def _print(
    experiment: Experiment[Row], rows: list[Row], findings: Sequence[Finding], data: str, console: Console
) -> None:
    summary = experiment.summary(rows)
    table = Table(
        *heading(type(summary[0]) if summary else experiment.row),
        title=f"{experiment.name}, {data}",
        title_justify="left",
    )
    for row in cells(summary):
        table.add_row(*row)
    console.print(table)
    for finding in findings:
        word = finding.verdict.upper() if finding.holds is False else finding.verdict
        console.print(
            f"{word:>9}  {finding.claim} ({finding.source}): {finding.here}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def computer() -> str:
    """The processor, the number of cores, and the versions of Python and the numerical packages."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn"))
    return f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def processor() -> str:
    """The model of the processor, which Linux tells only in a file."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
