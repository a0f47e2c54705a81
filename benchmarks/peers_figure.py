"""The figure of `peers`."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from pairloom.benchmarks.classifiers import OURS
from pairloom.benchmarks.peers import Row


def comparison_figure(rows: Sequence[Row]) -> Figure:
    """Log loss against the time to fit, one panel per set: to the left and down is better."""
    names = list(dict.fromkeys(row.data for row in rows))
    figure = Figure(figsize=(6.5 * len(names), 5), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        ended = [row for row in rows if row.data == name and row.ended]
        for k, row in enumerate(sorted(ended, key=lambda row: (row.log_loss, row.fit_s))):
            colour, place = "#3465a4" if row.peer.startswith(OURS) else "#222222", (row.fit_s, row.log_loss)
            axes.plot(*place, "o", color=colour)
            # The names stand beside the panel in the order of their log loss, where they cannot overlap.
            axes.annotate(
                row.peer,
                place,
                (1.03, (k + 0.5) / len(ended)),
                textcoords="axes fraction",
                va="center",
                fontsize=8,
                color=colour,
                arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.3},
            )
        axes.set(xscale="log", yscale="log", xlabel="fit, seconds", ylabel="log loss", title=name)
        axes.grid(alpha=0.3)
    return figure
