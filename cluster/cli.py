"""The command line: ``pairloom run CONFIG`` and the commands for runs that exist.

It uses everything else, so it is in the room that may import the other two.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from distributed import Client, performance_report

import pairloom
from pairloom.cluster.bench import bench
from pairloom.cluster.closed_pipe import QuietConsole, QuietGroup
from pairloom.cluster.config import ClusterConfig, Config, ConfigError, DataConfig
from pairloom.cluster.config_command import config_command
from pairloom.cluster.config_file import load_config, with_cluster, with_overrides, with_section
from pairloom.cluster.connect import check_address, connected, install_hint, scheduler_answers
from pairloom.cluster.driver import drive, load_data, unfinished_units
from pairloom.cluster.exits import RESUMABLE, ended_by_signals, exits, print_error, resumable, stderr
from pairloom.cluster.experiments import repeat_on_cluster
from pairloom.cluster.features_command import features_command
from pairloom.cluster.followed_run import FollowedRun
from pairloom.cluster.forecast import forecast_seconds, forecast_start, process_seconds
from pairloom.cluster.init_command import init_command
from pairloom.cluster.input_errors import input_errors
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.list_commands import compare_command, list_command
from pairloom.cluster.local_path import URL_ADVICE, looks_like_url
from pairloom.cluster.lock import RunLock, request_cancel
from pairloom.cluster.plan import Plan, make_plan
from pairloom.cluster.printing import plan_facts, print_facts, print_result, print_status
from pairloom.cluster.progress import progress_for
from pairloom.cluster.remote import submit_driver
from pairloom.cluster.schedule import Stop
from pairloom.cluster.simulator.command import simulate_command
from pairloom.cluster.stages import STAGE_NAMES
from pairloom.cluster.status import RunStatus, run_status
from pairloom.cluster.whole_run import begun_run, expect_run, ready_run
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.experiments.catalogue import EXPERIMENTS
from pairloom.pipeline.experiments.perform import Elsewhere, perform, sets_for
from pairloom.pipeline.experiments.results_page import write_results
from pairloom.pipeline.features.feature_set import DATA_FOLDER, load_samples
from pairloom.pipeline.run.probability_files import check_target, write_probabilities

__all__ = ["main"]

_INSTALL_BOKEH = install_hint("dashboard")


@click.group(
    cls=QuietGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(pairloom.__version__, prog_name="pairloom")
def main() -> None:
    """Multi-class classification by pairs: train, resume and use runs.

    \b
    Exit codes:
      0    done
      1    failed
      2    invalid arguments, configuration or data
      3    refused: another driver is at work, the configuration, data or version
           differ, the directory holds other files, a file is in the way, or the
           network is open
      4    stopped; can be resumed
      130  stopped by Ctrl-C; can be resumed
      143  stopped by SIGTERM; can be resumed
    """
    # Dask logs every lost connection at length. The commands report it in one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


main.add_command(simulate_command)
main.add_command(features_command)
main.add_command(init_command)
main.add_command(config_command)
main.add_command(list_command)
main.add_command(compare_command)


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Combine click options into one decorator."""
    return lambda command: functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(options), command
    )


main.add_command(bench)


class _LocalPath(click.Path):
    """A path that does not look like a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if looks_like_url(value):
            self.fail(f"must be a path, not a URL, got {str(value)!r}. {URL_ADVICE}", param, ctx)
        return super().convert(value, param, ctx)


_path = _LocalPath(path_type=Path)
_run_directory = click.argument("directory", type=_LocalPath(path_type=Path, exists=True, file_okay=False))
_overrides = click.option(
    "--set",
    "overrides",
    metavar="SECTION.KEY=VALUE",
    multiple=True,
    help="Override a key of the configuration. May be repeated.",
)
_new_directory = click.option(
    "--directory", type=_path, help="Run directory. Default: runs/ and the name of the configuration."
)
_update = click.option(
    "--update",
    is_flag=True,
    help="Accept changed settings or data, and recompute the stages that depend on them.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
_performance = click.option(
    "--performance-report", type=_path, help="Write Dask's performance report (HTML) to this file."
)
_cluster = _options(
    click.option("--scheduler", metavar="ADDRESS", help="Address of a Dask scheduler, tcp:// or tls://."),
    click.option(
        "--scheduler-file", type=str, metavar="FILE", help="Scheduler file written by a Dask scheduler."
    ),
    click.option("--tls-ca-file", type=str, metavar="FILE", help="Certificate of the authority (PEM)."),
    click.option("--tls-cert", type=str, metavar="FILE", help="Certificate of this client (PEM)."),
    click.option("--tls-key", type=str, metavar="FILE", help="Private key of this client (PEM)."),
    click.option("--insecure", is_flag=True, help="Allow a scheduler off loopback without TLS."),
    click.option(
        "--local", is_flag=True, help="Start workers on this computer, whatever the configuration says."
    ),
    click.option(
        "--workers", type=click.IntRange(1), metavar="N", help="Number of workers to start on this computer."
    ),
)


@main.command()
@click.argument("config")
@_overrides
@_new_directory
@_update
@_cluster
@_performance
@_as_json
def run(
    config: str, overrides: tuple[str, ...], directory: Path | None, update: bool, **options: Any
) -> None:
    """Plan and run CONFIG, or resume it.

    CONFIG is a TOML file or the name of a configuration that ships with pairloom. If the directory already holds
    the same run, it is resumed.
    """
    with exits():
        settings = _with_cluster(load_config(config, overrides), options)
        _run(settings, directory or Path("runs") / settings.run.name, update, options)


@main.command()
@_run_directory
@_overrides
@_update
@_cluster
@_performance
@_as_json
def resume(directory: Path, overrides: tuple[str, ...], update: bool, **options: Any) -> None:
    """Finish the run in DIRECTORY, on the same cluster or another."""
    with exits():
        stored = Plan.read(directory).config
        _run(_with_cluster(with_overrides(stored, overrides), options), directory, update, options)


@main.command()
@click.argument("config")
@_overrides
@_as_json
def plan(config: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the pairs, memory, disk and time of a run.

    CONFIG is a TOML file or the name of a configuration that ships with pairloom. Nothing is written.
    """
    with exits(), input_errors():
        imports = process_seconds()
        settings = load_config(config, overrides)
        data = load_data(settings)
        planned = make_plan(settings, data)
        start = forecast_start(planned, imports, process_seconds() - imports)
        facts = plan_facts(planned, forecast_seconds(planned, data), start)
        if as_json:
            click.echo(json.dumps(facts, indent=1))
        else:
            print_facts(facts)


@main.command()
@click.argument("config")
@_overrides
@_new_directory
@_update
@_cluster
def submit(
    config: str, overrides: tuple[str, ...], directory: Path | None, update: bool, **options: Any
) -> None:
    """Start a run of CONFIG on a cluster and return.

    The driver runs on a worker. The run directory and the data must have the same paths here and on the workers.
    """
    with exits():
        settings = _with_cluster(load_config(config, overrides), options)
        if settings.cluster.kind != "scheduler":
            raise ConfigError(
                "submit needs a running cluster: pass --scheduler ADDRESS or --scheduler-file FILE."
            )
        check_address(settings.cluster)
        where = (directory or Path("runs") / settings.run.name).absolute()
        connect = functools.partial(connected, settings.cluster, note=print_error)
        with ready_run(settings, where, connect, at_once=True, update=update) as ready:
            submit_driver(ready)
        click.echo(f"Submitted. Follow it with: pairloom attach {where}")


@main.command()
@_run_directory
@_as_json
@click.option("--verify", is_flag=True, help="Also compare every file with its checksum.")
def status(directory: Path, as_json: bool, verify: bool) -> None:
    """Show the progress of the run in DIRECTORY.

    Reads the ledger; needs no scheduler.
    """
    with exits():
        found = run_status(directory, verify=verify)
        if as_json:
            click.echo(json.dumps(found._asdict(), indent=1))
        else:
            print_status(found)


@main.command()
@_run_directory
def attach(directory: Path) -> None:
    """Follow the run in DIRECTORY until its driver ends."""
    with exits():
        again = f"The run goes on. Follow it again with: pairloom attach {directory}"
        with ended_by_signals(again, "Left."), progress_for(stderr) as progress:
            followed = FollowedRun(directory, progress)
            found = run_status(directory)
            while _is_driven(found):
                followed.show(found)
                time.sleep(1.0)
                found = run_status(directory)
        print_status(found)
        if found.state != "finished":
            sys.exit(RESUMABLE)


@main.command()
@_run_directory
@click.option(
    "--wait/--no-wait", default=True, help="Whether to wait until the driver has ended. Default: wait."
)
def cancel(directory: Path, wait: bool) -> None:
    """Stop the driver of the run in DIRECTORY.

    Finished work is kept, and the run can be resumed.
    """
    with exits():
        found = run_status(directory)
        if found.state == "submitted" and not _is_driven(found):
            with RunLock(directory) as lock:
                lock.end_as("cancelled before it started")
            click.echo(f"Cancelled.\nResume with: pairloom resume {directory} --local")
            return
        driver = request_cancel(directory)
        if driver is None:
            click.echo(f"No driver is at work on {directory}.")
            return
        while wait and _is_driven(run_status(directory)):
            time.sleep(0.2)
        click.echo(
            f"{'Stopped' if wait else 'Asked to stop'}: {driver}.\nResume with: pairloom resume {directory}"
        )


@main.command()
@_run_directory
@click.option(
    "--features",
    type=_LocalPath(),
    metavar="PATH",
    required=True,
    help="Samples X: .npz file, zarr group, folder of .npy files, or a table with the columns of the training data.",
)
@click.option(
    "--out",
    required=True,
    type=_path,
    help="File to write, with the predicted label of each sample and the probabilities: .npz, .csv or .zarr.",
)
@click.option("--coupling", metavar="NAME", help="One of the couplings of the run. Default: model.coupling.")
@click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
def predict(directory: Path, features: str, out: Path, coupling: str | None, force: bool) -> None:
    """Predict new samples with the run in DIRECTORY.

    Writes the predicted label and the probabilities of all classes for each sample. Of a table, columns are found by
    their names; others are not read.
    """
    with exits():
        with input_errors():
            check_target(out, force=force, samples=features)
        model = PairwiseSVC.from_run(directory, coupling=coupling)
        with input_errors():
            names = getattr(model, "feature_names_in_", None)
            X = load_samples(features, model.n_features_in_, None if names is None else names.tolist())
            if names is not None:
                del model.feature_names_in_  # columns were found by them; an array has none to compare
            p = model.predict_proba(X)
        write_probabilities(out, p, model.classes_.tolist(), force=force)
        click.echo(f"Wrote the labels and probabilities of {len(X)} samples, by {model.coupling}, to {out}")


@main.command()
@_run_directory
@_as_json
def report(directory: Path, as_json: bool) -> None:
    """Rewrite the report of a finished run and print its table."""
    with exits():
        stored = Plan.read(directory)
        missing = unfinished_units(directory, stored, STAGE_NAMES[:-1])
        if any(missing.values()):
            raise ValueError(
                f"{directory}: the run is not finished. Run `pairloom resume {directory}` first."
            )
        with RunLock(directory) as lock:
            Ledger(directory).forget("report", 0)
            with progress_for(stderr) as progress:
                expect_run(directory, stored, None, progress)
                progress.say(None)  # no workers are started
                here = functools.partial(connected, ClusterConfig(kind="threads", workers=1))
                drive(directory, stored, None, here, Stop(), progress, STAGE_NAMES[-1:])
            lock.end_as("finished")
        print_result(directory, as_json)


@main.command()
@click.argument("name", type=click.Choice([*EXPERIMENTS, "all", "results"]), metavar="NAME")
@click.option(
    "--data",
    "sets",
    type=_LocalPath(),
    metavar="SET",
    multiple=True,
    help="Name of a set, or a feature file. May be repeated.",
)
@click.option(
    "--out", type=_path, default=Path("runs/experiments"), help="Output folder. Default: runs/experiments."
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
    type=_path,
    metavar="FOLDER",
    help="Folder of pictures that the features were made of, to be shown in figures.",
)
@click.option(
    "--page",
    type=_path,
    default=Path("docs/results.md"),
    help="Page that `results` writes. Default: docs/results.md.",
)
@_cluster
def experiment(
    name: str,
    sets: tuple[str, ...],
    out: Path,
    repetitions: int | None,
    full: bool,
    resume: bool,
    seed: int,
    pictures: Path | None,
    page: Path,
    **options: Any,
) -> None:
    """Repeat an experiment of the paper.

    Writes a table, a figure, and a comparison with the paper's findings. NAME is triplets, quintets, ten-class,
    star-centres, growth, centres, bipartite, disagreements, boundaries, elementwise, mixtures, gaussians,
    encodings-simulated, encodings or curved; `all` for all of them; or `results`, which collects their output on one
    page.

    Without cluster options everything runs in this process; with them, the repetitions run on the cluster. The
    result is the same. The folder of --out must have the same path on the workers.
    """
    with exits(), ended_by_signals("Trained machines are kept. Run the same command again to continue."):
        if name == "results":
            click.echo("\n".join(str(file) for file in write_results(out, page)))
            return
        wanted = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
        began, times_taken = time.perf_counter(), {}
        with _elsewhere(options if any(chosen.is_repeated for chosen in wanted) else {}) as elsewhere:
            for chosen in wanted:
                present = sets_for(chosen, sets, full)
                if not present:
                    tables = ", ".join(chosen.tables)
                    print_error(
                        f"{chosen.name} is skipped: {DATA_FOLDER} names no folder with any of {tables}."
                    )
                for data in present:
                    start = time.perf_counter()
                    files = perform(
                        chosen,
                        data,
                        out,
                        repetitions=repetitions,
                        full=full,
                        seed=seed,
                        pictures=pictures,
                        console=QuietConsole(),
                        elsewhere=elsewhere,
                        resume=resume,
                    )
                    times_taken[f"{chosen.name}, {Path(data).stem}"] = time.perf_counter() - start
                    click.echo("\n".join(str(file) for file in files))
        if name == "all":
            times_taken["all"] = time.perf_counter() - began
            click.echo("\n".join(f"{seconds:8.1f} s  {what}" for what, seconds in times_taken.items()))


def _is_driven(found: RunStatus) -> bool:
    """Whether a run has a driver, or will have one: a submitted one has if its cluster still answers."""
    if found.state != "submitted":
        return found.state == "running"
    if scheduler_answers(Plan.read(Path(found.directory)).config.cluster):
        return True
    print_error(
        "The cluster that the run was submitted to does not answer, so no driver will start. "
        f"Run `pairloom resume {found.directory} --local` to run it here."
    )
    return False


@contextlib.contextmanager
def _elsewhere(options: dict[str, Any]) -> Iterator[Elsewhere | None]:
    """The cluster of the options, to compute repetitions; None for this process."""
    if not any(options.values()):
        yield None
        return
    # A configuration must name data. Only its [cluster] section is used here.
    cluster = _with_cluster(Config(data=DataConfig(features="digits")), options).cluster
    with connected(cluster, note=print_error) as client:
        yield functools.partial(repeat_on_cluster, client)


def _run(settings: Config, directory: Path, update: bool, options: dict[str, Any]) -> None:
    """Take the lock, do the missing work, print the result."""
    if options["performance_report"] and not _has_bokeh():
        raise ConfigError(f"--performance-report needs bokeh. {_INSTALL_BOKEH}")
    check_address(settings.cluster)
    stop, progress = Stop(), progress_for(stderr)
    connect = functools.partial(_connect, settings, options["performance_report"], stop, progress.say)
    at_once = settings.cluster.is_elsewhere
    with (
        ended_by_signals("Run the same command again to continue."),
        progress,
        ready_run(settings, directory, connect, at_once=at_once, update=update, say=progress.say) as ready,
        resumable(directory),
        contextlib.closing(progress),  # so that what stopped it stands below
        begun_run(ready, stop, progress) as begun,
    ):
        begun.finish(progress)
    print_result(directory, options["as_json"])


def _has_bokeh() -> bool:
    return importlib.util.find_spec("bokeh") is not None


@contextlib.contextmanager
def _connect(
    settings: Config, report_file: Path | None, stop: Stop, say: Callable[[str | None], None]
) -> Iterator[Client]:
    say("connecting to the cluster" if settings.cluster.is_elsewhere else "starting the workers")
    connection = connected(settings.cluster, note=print_error, on_failure=stop.request)
    with connection as client, contextlib.ExitStack() as stack:
        say(None)
        if report_file is not None:
            stack.enter_context(client.as_current())
            stack.enter_context(performance_report(str(report_file)))
        print_error(
            f"Dask dashboard: {client.dashboard_link}"
            if _has_bokeh()
            else f"No Dask dashboard: bokeh is missing. {_INSTALL_BOKEH}"
        )
        yield client


def _with_cluster(settings: Config, options: dict[str, Any]) -> Config:
    """The configuration, with the cluster of the options."""
    names = ("scheduler", "scheduler_file", "tls_ca_file", "tls_cert", "tls_key", "workers")
    given = {name: options[name] for name in names if options[name] is not None}
    given |= {"insecure": True} if options["insecure"] else {}
    if options["local"]:
        return with_cluster(settings, {"kind": "processes", **given})
    if given.keys() & {"scheduler", "scheduler_file"}:
        return with_cluster(settings, {"kind": "scheduler", **given})
    return with_section(settings, "cluster", given)
