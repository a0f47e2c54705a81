"""Charts of the page: the reliability diagram, and the scores of a growing model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.pipeline.display.evaluation import Outcomes, Reliability, reliability_of
from pairloom.pipeline.growth.waves import Wave
from pairloom.pipeline.report.page import Column, PageTable, Section, coordinate

__all__ = ["Chart", "growth_section", "reliability_section", "round_ticks"]


class Chart(NamedTuple):
    """Where the plane of a chart lies in its figure, and the values at its edges.

    Attributes
    ----------
    left, top, width, height : float
        The plane, in the units of the figure.
    x_range, y_range : tuple of float
        Values at its left and right, and at its bottom and top.
    """

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)

    def x(self, values: ArrayLike) -> NDArray[np.float64]:
        """Horizontal positions of values."""
        low, high = self.x_range
        return self.left + (np.asarray(values, np.float64) - low) / (high - low) * self.width

    def y(self, values: ArrayLike) -> NDArray[np.float64]:
        """Vertical positions of values."""
        low, high = self.y_range
        return self.top + (high - np.asarray(values, np.float64)) / (high - low) * self.height

    def path(self, x: ArrayLike, y: ArrayLike) -> str:
        """The path of SVG through points.

        Examples
        --------
        >>> Chart(0, 0, 10, 10).path([0, 1], [1, 0.65])
        'M0 0L10 3.5'
        """
        points = zip(self.x(x), self.y(y), strict=True)
        return "M" + "L".join(f"{coordinate(a)} {coordinate(b)}" for a, b in points)

    @property
    def bottom(self) -> float:
        """The lower edge of the plane."""
        return self.top + self.height


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About so many round numbers from ``low`` to ``high``.

    Examples
    --------
    >>> round_ticks(0, 1), round_ticks(61, 612, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [200.0, 400.0, 600.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * nice for nice in (1, 2, 2.5, 5) if power * nice >= rough * 0.999), power * 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(multiple * step, 12) for multiple in range(first, last + 1)]


def reliability_section(by_method: Mapping[str, Outcomes]) -> Section:
    """Accuracy against confidence, with a histogram of the samples and a table of the bins."""
    of_model, *others = (reliability_of(outcomes) for outcomes in by_method.values())
    plane, counts = Chart(44, 10, 344, 260), Chart(44, 292, 344, 64)
    seen = of_model.samples > 0
    gap = np.average((of_model.confidence - of_model.accuracy)[seen], weights=of_model.samples[seen])
    content = {
        "methods": list(by_method),
        "several": bool(others),
        "calibration_error": of_model.expected_calibration_error,
        "side": "above" if gap > 0 else "below",
        "plane": plane,
        "counts": counts,
        "ticks": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "diagonal": plane.path([0, 1], [0, 1]),
        "path": _curve(plane, of_model),
        "others": [_curve(plane, curve) for curve in others],
        "dots": list(_dots(plane, of_model)),
        "bars": list(_bars(counts, of_model)),
        "most": int(of_model.samples.max()),
        "bins": _bins_table(of_model),
    }
    return Section("reliability", "Reliability", content)


def _curve(plane: Chart, curve: Reliability) -> str:
    seen = curve.samples > 0
    return plane.path(curve.confidence[seen], curve.accuracy[seen])


def _dots(plane: Chart, curve: Reliability) -> Iterable[dict[str, Any]]:
    """A dot per bin, smaller for fewer samples, whose accuracy is less certain."""
    most = curve.samples.max()
    for confidence, accuracy, samples in zip(*curve, strict=True):
        if samples:
            radius = 2 + 3 * np.sqrt(samples / most)
            place = {"x": plane.x(confidence), "y": plane.y(accuracy), "radius": radius}
            yield place | {"confidence": confidence, "accuracy": accuracy, "samples": samples}


def _bars(plane: Chart, curve: Reliability) -> Iterable[dict[str, float]]:
    most, width = int(curve.samples.max()), plane.width / len(curve.samples)
    for place, samples in enumerate(curve.samples.tolist()):
        height = max(plane.height * samples / most, 1.0) if samples else 0.0
        yield {
            "x": plane.left + place * width + 0.5,
            "width": width - 1,
            "height": height,
            "samples": samples,
        }


def _bins_table(curve: Reliability) -> PageTable:
    bins = len(curve.samples)
    rows = [
        [f"{b / bins:.2f} – {(b + 1) / bins:.2f}", samples, f"{confidence:.4f}", f"{accuracy:.4f}"]
        for b, (confidence, accuracy, samples) in enumerate(zip(*curve, strict=True))
        if samples
    ]
    columns = [Column("bin"), *(Column(name, "number") for name in ("samples", "confidence", "accuracy"))]
    return PageTable("bins", "Bins of the reliability diagram", columns, rows)


def growth_section(waves: Sequence[Wave], n_classes: int, ended: str | None = None) -> Section:
    """Log loss and accuracy of a growing model against its number of pairs, and why it stopped growing."""
    rows = [[w, wave.pairs, f"{wave.log_loss:.4f}", f"{wave.accuracy:.4f}"] for w, wave in enumerate(waves)]
    columns = [Column(name, "number") for name in ("wave", "pairs", "log loss", "accuracy")]
    content = {
        "first": waves[0].pairs,
        "last": waves[-1].pairs,
        "of_all": n_classes * (n_classes - 1) // 2,
        "waves": len(waves) - 1,
        "ended": ended,
        "charts": [
            _growth_chart("log loss", waves, [wave.log_loss for wave in waves]),
            _growth_chart("accuracy", waves, [wave.accuracy for wave in waves]),
        ],
        "table": PageTable("waves", "Waves of growth", columns, rows),
    }
    return Section("growth", "Growth", content)


def _growth_chart(name: str, waves: Sequence[Wave], scores: Sequence[float]) -> dict[str, Any]:
    pairs = [wave.pairs for wave in waves]
    x_margin = 0.03 * (pairs[-1] - pairs[0]) or 1.0
    y_margin = 0.06 * (max(scores) - min(scores)) or 0.01
    x_range, y_range = (
        (pairs[0] - x_margin, pairs[-1] + x_margin),
        (min(scores) - y_margin, max(scores) + y_margin),
    )
    plane = Chart(52, 16, 334, 190, x_range, y_range)
    return {
        "name": name,
        "plane": plane,
        "x_ticks": round_ticks(*x_range, 4),
        "y_ticks": round_ticks(*y_range, 5),
        "path": plane.path(pairs, scores),
        "dots": [
            {"x": plane.x(n), "y": plane.y(score), "pairs": n, "score": score}
            for n, score in zip(pairs, scores, strict=True)
        ],
    }
