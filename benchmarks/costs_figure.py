"""The figure of `costs`: one panel per axis, both axes logarithmic."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from pairloom.benchmarks.costs import LEAST_SHARE, Row


def costs_figure(rows: Sequence[Row]) -> Figure:
    """CPU seconds of the costs that matter against each size."""
    axes_of_work = list(dict.fromkeys(row.axis for row in rows))
    figure = Figure(figsize=(6 * len(axes_of_work), 5), layout="constrained")
    panels = figure.subplots(1, len(axes_of_work), squeeze=False)[0]
    for axes, axis in zip(panels, axes_of_work, strict=True):
        for row in rows:
            if row.axis == axis and row.cost != "peak MB" and not row.share < LEAST_SHARE:
                axes.plot(row.sizes, row.values, "o-", ms=3, label=f"{row.cost}, {row.power:.2f}")
        axes.set(xscale="log", yscale="log", xlabel=axis, ylabel="CPU seconds")
        axes.legend(frameon=False, fontsize=7)
        axes.grid(alpha=0.3, which="both")
    return figure
