"""The commands ``pairloom bench ...``. The benchmarks themselves are in ``benchmarks/``."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource
from matplotlib.figure import Figure

from pairloom.benchmarks import (
    classes_and_groups,
    costs,
    coupling,
    few_rows,
    first_fit,
    first_tiles,
    label_doubts,
    learning,
    many_classes,
    novelty,
    pairs,
    peers,
    prediction_sets,
    resume,
    scaling,
    sparse_text,
    stores,
)
from pairloom.benchmarks.classifiers import PEERS, THREADS
from pairloom.benchmarks.costs import costs_figure
from pairloom.benchmarks.datasets import SETS, DataNotFound, synthetic_classes, write_split
from pairloom.benchmarks.peers import comparison_figure
from pairloom.benchmarks.record import Record
from pairloom.benchmarks.scaling import scaling_figure
from pairloom.cluster.commands.exits import exits
from pairloom.cluster.config.config_file import load_config
from pairloom.pipeline.config.config import InputError
from pairloom.pipeline.model.prediction_sets import SetBy, SetScore

__all__ = ["bench"]


# click's types are generic from 8.4 on.
if TYPE_CHECKING:
    _NumbersType = click.ParamType[tuple[int, ...]]
    _SharesType = click.ParamType[tuple[float, ...]]
else:
    _NumbersType = _SharesType = click.ParamType


class Numbers(_NumbersType):
    """Positive whole numbers, separated by commas."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """``"1,2,4"`` as a tuple."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(word) for word in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1:
            self.fail(f"must be positive whole numbers separated by commas, such as 1,2, got {value!r}.")
        return numbers


class Shares(_SharesType):
    """Growing shares between 0 and 1, separated by commas."""

    name = "shares"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """``"0.25,0.5"`` as a tuple."""
        if isinstance(value, tuple):
            return value
        try:
            shares = tuple(float(word) for word in str(value).split(","))
        except ValueError:
            shares = ()
        if not shares or not all(low < high for low, high in pairwise((0.0, *shares, 1.0))):
            self.fail(f"must be growing numbers between 0 and 1, separated by commas, got {value!r}.")
        return shares


_file = click.Path(path_type=Path, dir_okay=False)
_small = click.option("--small", is_flag=True, help="Small sizes, to check that the benchmark runs: seconds.")
_json = click.option("--json", "json_file", type=_file, metavar="FILE", help="Write all figures as JSON.")
_plot = click.option(
    "--plot", "plot_file", type=_file, metavar="FILE", help="Draw the figure: .png, .svg or .pdf."
)
_overrides = click.option(
    "--set",
    "overrides",
    metavar="SECTION.KEY=VALUE",
    multiple=True,
    help="Override a key of the configuration.",
)
#: Settings of small runs, which leave nothing to choose.
_QUICK = ("model.C=scale", "model.whiten=none", "model.calibration=distance")
#: Settings of a small run that give it the stages of a run of many classes.
_LISTED = ("model.kernel=linear", "graph.family=hub_neighbours", "model.shortlist=4", "run.tensor=virtual")
_synthetic = click.option(
    "--synthetic",
    type=click.IntRange(2),
    metavar="N",
    help="N synthetic classes, 200 rows of 384 features each, in place of the data of CONFIG.",
)


@click.group()
def bench() -> None:
    """Measure pairloom on this computer.

    Every benchmark prints the machine, the versions and a table with both figures of every ratio; --json writes them
    all. Real data are looked for in the folder PAIRLOOM_DATA; sets that are not there are skipped. Nothing else
    should run at the same time.
    """


@bench.command("peers")
@click.option("--sets", default=",".join(peers.USUAL_SETS), show_default=True, help="Data sets, by commas.")
@click.option("--peers", "names", default=",".join(PEERS), help="Classifiers, by commas. Default: all.")
@click.option(
    "--threads", type=Numbers(), default=(1, THREADS), help="Numbers of threads to try. Default: 1,2."
)
@click.option(
    "--limit", type=float, default=600.0, show_default=True, help="Seconds that a classifier may take."
)
@_small
@_json
@_plot
def peers_command(
    sets: str,
    names: str,
    threads: tuple[int, ...],
    limit: float,
    small: bool,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Quality, time and memory, compared with classifiers of scikit-learn."""
    with _recorded("peers", json_file) as record:
        chosen = ["digits"] if small else _among(sets, SETS, "--sets")
        compared = ["PairwiseSVC", "LogisticRegression"] if small else _among(names, PEERS, "--peers")
        rows = peers.compare_sets(record, chosen, compared, threads[:1] if small else threads, limit)
        _draw(comparison_figure, rows, plot_file)


@bench.command("pairs")
@_small
@_json
def pairs_command(small: bool, json_file: Path | None) -> None:
    """The two-class solver, compared with LIBSVM and LIBLINEAR, one thread."""
    with _recorded("pairs", json_file) as record:
        pairs.compare_solvers(record, small)


@bench.command("coupling")
@_small
@_json
def coupling_command(small: bool, json_file: Path | None) -> None:
    """Coupling, compared with numpy.linalg.solve, LIBSVM's coupling and the bandwidth of memory."""
    with _recorded("coupling", json_file) as record:
        coupling.compare(record, small)


@bench.command("prediction-sets")
@click.option(
    "--splits", type=click.IntRange(1), default=20, show_default=True, help="Random splits of each set."
)
@click.option("--peers", is_flag=True, help="Sets of MAPIE and crepes too, of the same model.")
@click.option("--costs", is_flag=True, help="CPU time and memory, compared with theirs, on embedded sets.")
@click.option("--score", type=click.Choice(get_args(SetScore)), default="lac", show_default=True)
@click.option("--by", type=click.Choice(get_args(SetBy)), default="all", show_default=True)
@click.option(
    "--data",
    "names",
    multiple=True,
    type=click.Choice((*prediction_sets.SETS, *prediction_sets.EMBEDDED)),
    help=f"Default: all but {' and '.join(prediction_sets.EMBEDDED)}.",
)
@_small
@_json
def prediction_sets_command(
    splits: int,
    peers: bool,
    costs: bool,
    score: SetScore,
    by: SetBy,
    names: tuple[str, ...],
    small: bool,
    json_file: Path | None,
) -> None:
    """How often prediction sets hold the true class, and how large they are."""
    with _recorded("prediction-sets", json_file) as record:
        if costs:
            prediction_sets.measure_costs(record, names or prediction_sets.COST_SETS)
            return
        chosen = ("iris",) if small else names or tuple(prediction_sets.SETS)
        n_splits = 2 if small else splits
        prediction_sets.measure_sets(record, chosen, n_splits, peers=peers, score=score, by=by)


@bench.command("label-doubts")
@click.option("--draws", type=click.IntRange(1), default=3, show_default=True, help="Draws of the labels.")
@click.option(
    "--data",
    "names",
    multiple=True,
    type=click.Choice((*label_doubts.DATA, *label_doubts.MANY_CLASSES)),
    help=f"Default: {', '.join(label_doubts.DATA)}.",
)
@_small
@_json
def label_doubts_command(draws: int, names: tuple[str, ...], small: bool, json_file: Path | None) -> None:
    """How well wrong labels are found, compared with cleanlab's ranking."""
    with _recorded("label-doubts", json_file) as record:
        chosen = ("synthetic",) if small else names or label_doubts.DATA
        label_doubts.measure_doubts(record, chosen, 1 if small else draws)


@bench.command("classes-and-groups")
@click.option(
    "--choices", type=click.IntRange(1), default=10, show_default=True, help="Choices of possible classes."
)
@_small
@_json
def classes_and_groups_command(choices: int, small: bool, json_file: Path | None) -> None:
    """Probabilities where ten classes of CLINC150 are possible; how often groups of ICD-10-CM are right."""
    with _recorded("classes-and-groups", json_file) as record:
        classes_and_groups.measure_possible(record, 2 if small else choices, small=small)
        classes_and_groups.measure_groups(record, small=small)


@bench.command("novelty")
@click.option(
    "--draws", type=click.IntRange(1), default=5, show_default=True, help="Draws of the known classes."
)
@click.option("--data", "names", multiple=True, type=click.Choice(tuple(novelty.CASES)), help="Default: all.")
@_small
@_json
def novelty_command(draws: int, names: tuple[str, ...], small: bool, json_file: Path | None) -> None:
    """How well novelty separates samples of no class from known ones, compared with other measures."""
    with _recorded("novelty", json_file) as record:
        chosen = ("synthetic",) if small else names or tuple(novelty.CASES)
        novelty.measure_novelty(record, chosen, 1 if small else draws)


@bench.command("few-rows")
@click.option("--draws", type=click.IntRange(1), default=20, show_default=True, help="Draws per set.")
@click.option("--rows", type=Numbers(), default=(5, 10, 20), help="Rows per class. Default: 5,10,20.")
@_small
@_json
def few_rows_command(draws: int, rows: tuple[int, ...], small: bool, json_file: Path | None) -> None:
    """Log loss with few rows per class, compared with LogisticRegression."""
    with _recorded("few-rows", json_file) as record:
        few_rows.compare_sets(record, (8,) if small else rows, 2 if small else draws)


@bench.command("first-fit")
@_small
@_json
def first_fit_command(small: bool, json_file: Path | None) -> None:
    """The first fit after an installation, which compiles kernels."""
    with _recorded("first-fit", json_file) as record:
        first_fit.measure(record, small)


@bench.command("learning")
@click.option(
    "--sets", default=",".join(learning.USUAL_SETS), show_default=True, help="Data sets, by commas."
)
@_small
@_json
def learning_command(sets: str, small: bool, json_file: Path | None) -> None:
    """The gain from learning through the coupling, and the cost of gradients."""
    with _recorded("learning", json_file) as record:
        chosen = ["digits"] if small else _among(sets, SETS, "--sets")
        learning.compare_sets(record, chosen, 64 if small else learning.GRADIENT_SAMPLES)


@bench.command("sparse-text")
@click.option("--sets", default=",".join(sparse_text.SETS), show_default=True, help="Data sets, by commas.")
@click.option(
    "--classifiers",
    default=",".join(sparse_text.CLASSIFIERS),
    show_default=True,
    help="Classifiers, by commas.",
)
@click.option(
    "--limit", type=float, default=600.0, show_default=True, help="Seconds that a classifier may take."
)
@_small
@_json
def sparse_text_command(
    sets: str, classifiers: str, limit: float, small: bool, json_file: Path | None
) -> None:
    """Text as sparse features, compared with LogisticRegression on the same matrix."""
    with _recorded("sparse-text", json_file) as record:
        chosen = ["words"] if small else _among(sets, sparse_text.SETS, "--sets")
        compared = _among(classifiers, sparse_text.CLASSIFIERS, "--classifiers")
        sparse_text.compare_sets(record, chosen, compared, limit, small)


@bench.command("scaling")
@click.argument("config", default="imagenet50-synthetic")
@click.option("--workers", type=Numbers(), help="Numbers of workers. Default: 1 and one per core.")
@click.option("--weak/--no-weak", default=True, help="Whether to measure weak scaling too. Default: yes.")
@click.option(
    "--tensors",
    metavar="KINDS",
    help="Ways to keep the logits, each measured by itself: stored,virtual. Default: that of CONFIG.",
)
@click.option(
    "--forecast",
    type=Numbers(),
    default=(),
    help="Numbers of workers of a cluster to forecast, such as 4,16,64,256.",
)
@_synthetic
@_overrides
@_small
@_json
@_plot
def scaling_command(
    config: str,
    workers: tuple[int, ...] | None,
    weak: bool,
    tensors: str | None,
    forecast: tuple[int, ...],
    synthetic: int | None,
    overrides: tuple[str, ...],
    small: bool,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """A run of CONFIG on several numbers of workers: strong and weak scaling, and where the time goes."""
    with _recorded("scaling", json_file) as record, _data(synthetic) as data:
        quick = _QUICK if small else ()
        settings = load_config("digits" if small else config, (*quick, *data, *overrides))
        numbers = workers or (1, os.cpu_count() or 1)
        kinds = () if tensors is None else _among(tensors, ("stored", "virtual"), "--tensors")
        warm_ups = 0 if small else 2
        found = scaling.scale(
            record, settings, numbers, weak=weak, warm_ups=warm_ups, tensors=kinds, forecast=forecast
        )
        _draw(scaling_figure, found, plot_file)


@bench.command("many-classes")
@click.option("--sets", default=",".join(many_classes.SETS), show_default=True, help="Data sets, by commas.")
@click.option(
    "--peers", "names", default=",".join(many_classes.PEERS), help="Classifiers, by commas. Default: all."
)
@click.option(
    "--most-logistic",
    type=click.IntRange(0),
    default=2000,
    show_default=True,
    help="Classes up to which logistic regression is fitted.",
)
@_small
@_json
def many_classes_command(
    sets: str, names: str, most_logistic: int, small: bool, json_file: Path | None
) -> None:
    """Sets of a thousand classes and more, compared with other methods that give probabilities at that size."""
    with _recorded("many-classes", json_file) as record:
        chosen = ["synthetic"] if small else _among(sets, many_classes.SETS, "--sets")
        compared = _among(names, many_classes.PEERS, "--peers")
        many_classes.compare_sets(record, chosen, compared, most_logistic, small=small)


@bench.command("first-tiles")
@click.argument("config", default="imagenet21841-synthetic")
@click.option(
    "--workers", type=click.IntRange(1), default=2, show_default=True, help="Workers of the forecast."
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder for the temporary run directory. Default: the folder for temporary files.",
)
@_overrides
@_small
@_json
def first_tiles_command(
    config: str,
    workers: int,
    folder: Path | None,
    overrides: tuple[str, ...],
    small: bool,
    json_file: Path | None,
) -> None:
    """Plan a run of CONFIG and do the first unit of each stage, to forecast the whole run."""
    with _recorded("first-tiles", json_file) as record:
        quick = (*_QUICK, *_LISTED) if small else ()
        settings = load_config("digits" if small else config, (*quick, *overrides))
        first_tiles.try_first_tiles(record, settings, workers, folder)


@bench.command("resume")
@click.argument("config", default="imagenet50-synthetic")
@click.option("--workers", type=click.IntRange(1), help="Number of workers. Default: one per core.")
@click.option("--shares", type=Shares(), default=resume.SHARES, help="When to kill. Default: 0.25,0.5,0.75.")
@click.option("--in-turn", is_flag=True, help="Kill one run at all shares, one after the other.")
@click.option("--warm-up/--no-warm-up", default=True, help="Whether a run goes before. Default: yes.")
@_synthetic
@_overrides
@_small
@_json
def resume_command(
    config: str,
    workers: int | None,
    shares: tuple[float, ...],
    in_turn: bool,
    warm_up: bool,
    synthetic: int | None,
    overrides: tuple[str, ...],
    small: bool,
    json_file: Path | None,
) -> None:
    """Runs of CONFIG that are killed at shares of their units and resumed."""
    with _recorded("resume", json_file) as record, _data(synthetic) as data:
        name, quick = ("digits", _QUICK) if small else (config, ())
        settings = (*quick, *data, *overrides)
        load_config(name, settings)  # so that a mistake is found before the first run
        number = workers or os.cpu_count() or 1
        resume.kill_and_resume(
            record, name, settings, number, shares, in_turn=in_turn, warm_up=warm_up and not small
        )


@bench.command("stores")
@click.argument("config", default="imagenet1000-synthetic")
@click.option("--workers", type=click.IntRange(1), help="Number of workers. Default: one per core.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="Runs in each home.")
@_overrides
@_small
@_json
def stores_command(
    config: str,
    workers: int | None,
    rounds: int,
    overrides: tuple[str, ...],
    small: bool,
    json_file: Path | None,
) -> None:
    """A run of CONFIG in an object store on this computer against one in a folder: time and requests."""
    with _recorded("stores", json_file) as record:
        name, quick = ("digits", _QUICK) if small else (config, ())
        settings = (*quick, *overrides)
        load_config(name, settings)  # so that a mistake is found before the first run
        number = workers or os.cpu_count() or 1
        stores.compare_homes(record, name, settings, number, 1 if small else rounds, warm_up=not small)


@bench.command("costs")
@click.option("--axes", default=",".join(costs.AXES), show_default=True, help="Sizes that grow, by commas.")
@click.option("--sizes", type=Numbers(), help="Sizes along a single axis.")
@click.option("--limit", type=float, default=600.0, show_default=True, help="Seconds that a fit may take.")
@_small
@_json
@_plot
def costs_command(
    axes: str,
    sizes: tuple[int, ...] | None,
    limit: float,
    small: bool,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Time of every stage, of fit and of predict, against classes, rows, features and test rows."""
    with _recorded("costs", json_file) as record:
        names = _among(axes, costs.AXES, "--axes")
        if sizes and (len(names) > 1 or len(sizes) < 2):
            raise click.UsageError(f"--sizes needs at least two sizes of one axis in --axes, got {axes}.")
        known = costs.SMALL_AXES if small else costs.AXES
        chosen = {name: sizes or known[name] for name in names}
        base = costs.SMALL_BASE if small else costs.Sizes()
        rows = costs.measure_costs(record, chosen, base, limit)
        _draw(costs_figure, rows, plot_file)


@contextlib.contextmanager
def _data(synthetic: int | None) -> Iterator[tuple[str, ...]]:
    """The setting that gives a run synthetic classes; empty if ``synthetic`` is None."""
    if synthetic is None:
        yield ()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npz"
        write_split(synthetic_classes(synthetic, rows=200), path)
        yield (f"data.features={path}",)


@contextlib.contextmanager
def _recorded(name: str, json_file: Path | None) -> Iterator[Record]:
    """A record that is written if the benchmark succeeds."""
    with exits():
        context = click.get_current_context()
        if json_file is not None and not json_file.absolute().parent.is_dir():
            raise click.BadParameter(f"the folder of {json_file} must exist.", param_hint="--json")
        record = Record(name, _command_line(context), context.params)
        if context.params["small"]:
            record.note("Small sizes, to check that the benchmark runs: the figures say nothing about speed.")
        try:
            yield record
        except DataNotFound as missing:
            raise InputError(str(missing)) from None
        if json_file is not None:
            record.write(json_file)


def _command_line(context: click.Context) -> str:
    """The command as it was given, without the files that it writes."""
    words = ["pairloom", "bench", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in ("json_file", "plot_file"):
            words += _words(parameter, context.params[name])
    return shlex.join(words)


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [str(value)]
    if isinstance(value, bool):
        return [(parameter.opts if value else parameter.secondary_opts)[0]]
    if parameter.multiple:
        return [word for part in value for word in (parameter.opts[0], str(part))]
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return [parameter.opts[0], text]


def _among(text: str, known: Any, option: str) -> list[str]:
    """Names separated by commas, each of them known."""
    names = text.split(",")
    for name in names:
        if name not in known:
            raise click.BadParameter(f"must be among {', '.join(known)}, got {name!r}.", param_hint=option)
    return names


def _draw(figure_of: Callable[[Any], Figure], rows: Any, path: Path | None) -> None:
    if path is not None and rows:
        figure_of(rows).savefig(path, dpi=130)
