"""The figure of `scaling`: speedup beside the ideal line, and where the time of the workers goes."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairloom.benchmarks.scaling import Row


def scaling_figure(rows: Sequence[Row]) -> Figure:
    """Two panels."""
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_speedup(left, rows)
    draw_shares(right, rows)
    return figure


def draw_speedup(axes: Axes, rows: Sequence[Row]) -> None:
    """Speedup of the run and of its training against the number of workers."""
    numbers = sorted({row.workers for row in rows})
    axes.plot(numbers, [w / numbers[0] for w in numbers], "--", color="#888888", label="ideal")
    for mode, colour in (("strong", "#3465a4"), ("weak", "#c17d11")):
        some = [row for row in rows if row.mode == mode]
        workers = [row.workers for row in some]
        if not some:
            continue
        axes.plot(workers, [row.speedup for row in some], "o-", color=colour, label=f"{mode}, whole run")
        trained = [row.training_efficiency * row.workers / workers[0] for row in some]
        axes.plot(workers, trained, "s:", color=colour, label=f"{mode}, training")
    axes.set(xlabel="workers", ylabel="speedup (weak: pairs per second)", xticks=numbers)
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def draw_shares(axes: Axes, rows: Sequence[Row]) -> None:
    """The shares of the worker-seconds of every run, as stacked bars."""
    names = [f"{row.mode}\n{row.workers}" for row in rows]
    bottom = [0.0] * len(rows)
    for heading in rows[0].shares:
        heights = [100 * row.shares[heading] for row in rows]
        axes.bar(names, heights, bottom=bottom, label=heading)
        bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
    axes.set(ylabel="share of the worker-seconds, %")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
