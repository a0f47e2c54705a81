"""``forecast.json``: the least and the most seconds that each stage of a run should take."""

from __future__ import annotations

import json
from pathlib import Path

from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = ["Ranges", "read_forecast", "write_forecast"]

#: Least and most seconds by stage.
Ranges = dict[str, tuple[float, float]]

_FORECAST = "forecast.json"


def write_forecast(directory: Path, ranges: Ranges) -> None:
    """Write the forecast of a run."""
    write_atomically(directory / _FORECAST, (json.dumps(ranges, indent=1) + "\n").encode())


def read_forecast(directory: Path) -> Ranges | None:
    """The forecast of a run, or None if it has none, or none that can be read: a report can do without."""
    try:
        content = json.loads((directory / _FORECAST).read_bytes())
        return {stage: (float(low), float(high)) for stage, (low, high) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None
