"""The command ``pairloom experiment``."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from pairloom.cluster.commands.exits import PipedConsole, ended_by_signals, exits, print_error
from pairloom.cluster.commands.options import LocalPath, cluster_options, local_path, with_cluster_options
from pairloom.cluster.connect.connect import connected
from pairloom.cluster.drive.repetitions import repeat_on_cluster
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import DataConfig
from pairloom.pipeline.experiments.experiment import Experiment
from pairloom.pipeline.experiments.perform import (
    ADAPTED,
    ADAPTED_SETS,
    EXPERIMENTS,
    RepeatOnCluster,
    perform,
    sets_for,
)
from pairloom.pipeline.experiments.results_page import write_results
from pairloom.pipeline.experiments.trained_tensor import MACHINES, is_present
from pairloom.pipeline.features.source_files import DATA_FOLDER

__all__ = ["experiment_command"]


@click.command("experiment")
@click.argument("name", type=click.Choice([*EXPERIMENTS, "adapted", "all", "results"]), metavar="NAME")
@click.option(
    "--data",
    "sets",
    type=LocalPath(),
    metavar="SET",
    multiple=True,
    help="Name of a set, or a feature file. May be repeated.",
)
@click.option(
    "--out",
    type=local_path,
    default=Path("runs/experiments"),
    help="Output folder. Default: runs/experiments.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    metavar="N",
    help="Number of repetitions. Default: that of the experiment.",
)
@click.option(
    "--full",
    is_flag=True,
    help="As many repetitions as the paper: 200 for growth. Fewer on 100 classes or more.",
)
@click.option(
    "--resume", is_flag=True, help="Skip what was measured before, with the same data, settings and code."
)
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, help="Seed of the draws. Default: 0.")
@click.option(
    "--pictures",
    type=local_path,
    metavar="FOLDER",
    help="Folder of the pictures from which the features were made, to be shown in figures.",
)
@click.option(
    "--page",
    type=local_path,
    metavar="FILE",
    help="Page that `results` writes, with a folder of figures beside it. Default: results.md in the folder of --out.",
)
@click.option(
    "--keep",
    type=local_path,
    metavar="PAGE",
    help="An earlier page: `results` keeps its measurements whose files are not in the folder of --out.",
)
@click.option(
    "--machines",
    type=click.Choice(MACHINES),
    multiple=True,
    default=("ours",),
    help="Whose machines are trained: ours, or those of the paper's authors, linear or radial. May be repeated."
    " Default: ours.",
)
@click.option("--force", is_flag=True, help="Replace the page of `results` and its figures if they exist.")
@cluster_options
def experiment_command(
    name: str,
    sets: tuple[str, ...],
    out: Path,
    repetitions: int | None,
    full: bool,
    resume: bool,
    seed: int,
    pictures: Path | None,
    page: Path | None,
    keep: Path | None,
    machines: tuple[str, ...],
    force: bool,
    **options: Any,
) -> None:
    """Repeat an experiment of the paper.

    Writes a table, a figure, and a comparison with the paper's findings. NAME is triplets, quintets, ten-class,
    star-centres, growth, centres, bipartite, many-classes, diameters, disagreements, boundaries, elementwise, mixtures,
    gaussians, encodings-simulated, encodings or curved; `adapted` for Table 5 and Figures 4 to 6 on the hidden layer of
    a network that was trained on the classes; `all` for all of these; or `results`, which collects their output on one
    page.

    Without cluster options everything runs in this process; with them, the repetitions run on the cluster. The
    result is the same. The folder of --out must have the same path on the workers.
    """
    with exits(), ended_by_signals("Trained machines are kept. Run the same command again to continue."):
        if name == "results":
            written = write_results(out, page or out / "results.md", keep=keep, force=force)
            click.echo("\n".join(str(file) for file in written))
            return
        wanted = _wanted(name, machines)
        began, times_taken = time.perf_counter(), {}
        repeated = any(job.experiment.is_repeated for job in wanted)
        with _repetitions_on(options if repeated else {}) as on_cluster:
            for job in wanted:
                present = job.sets(sets, full)
                if not present:
                    usual = ", ".join(ADAPTED_SETS if job.adapted else job.experiment.tables)
                    print_error(
                        f"{job.experiment.name} is skipped: {DATA_FOLDER} names no folder with any of {usual}."
                    )
                for data in present:
                    start = time.perf_counter()
                    files = perform(
                        job.experiment,
                        data,
                        out,
                        repetitions=repetitions,
                        full=full,
                        seed=seed,
                        pictures=pictures,
                        console=PipedConsole(),
                        on_cluster=on_cluster,
                        resume=resume,
                        machines=job.machines,
                        adapted=job.adapted,
                    )
                    times_taken[job.title(Path(data).stem)] = time.perf_counter() - start
                    click.echo("\n".join(str(file) for file in files))
        if len(wanted) > 1:
            times_taken["all"] = time.perf_counter() - began
            click.echo("\n".join(f"{seconds:8.1f} s  {what}" for what, seconds in times_taken.items()))


class Job(NamedTuple):
    """An experiment, whose machines it is done with, and whether its features know the classes."""

    experiment: Experiment[Any]
    machines: str
    adapted: bool = False

    def sets(self, named: Sequence[str], full: bool) -> list[str]:
        """The named sets, or else the usual ones that are present."""
        if self.adapted and not named:
            return [name for name in ADAPTED_SETS if is_present(name)]
        return sets_for(self.experiment, named, full)

    def title(self, data: str) -> str:
        """What it is called among others."""
        others = [
            *(["adapted"] if self.adapted else []),
            *([] if self.machines == "ours" else [self.machines]),
        ]
        return ", ".join([self.experiment.name, data, *others])


def _wanted(name: str, machines: Sequence[str]) -> list[Job]:
    """What a name stands for. Some experiments train their own machines, or none, and allow only ours."""
    if (
        name not in ("adapted", "all")
        and not EXPERIMENTS[name].has_other_machines
        and set(machines) != {"ours"}
    ):
        raise click.UsageError(f"--machines must be ours with {name}, got {', '.join(machines)}.")
    plain = EXPERIMENTS.values() if name == "all" else [EXPERIMENTS[name]] if name in EXPERIMENTS else []
    jobs = [
        Job(each, whose) for whose in machines for each in plain if whose == "ours" or each.has_other_machines
    ]
    if name in ("adapted", "all"):
        jobs += [Job(EXPERIMENTS[each], whose, adapted=True) for whose in machines for each in ADAPTED]
    return jobs


@contextlib.contextmanager
def _repetitions_on(options: dict[str, Any]) -> Iterator[RepeatOnCluster | None]:
    """The cluster of the options, for the repetitions; None to compute them in this process."""
    if not any(options.values()):
        yield None
        return
    # A configuration must name data. Only its [cluster] section is used here.
    cluster = with_cluster_options(Config(data=DataConfig(features="digits")), options).cluster
    with connected(cluster, note=print_error) as client:
        yield functools.partial(repeat_on_cluster, client)
