"""Scaling of runs on simulated clusters: the table, the figure and the what-ifs of docs/scaling.md.

    python -m pairloom.benchmarks.simulated_clusters                    # simulate (some minutes), then write
    python -m pairloom.benchmarks.simulated_clusters --quick            # a few small cases, written nowhere
    python -m pairloom.benchmarks.simulated_clusters --from-runs A B    # first take the times of units from runs

Times of units are in ``docs/scaling/costs.json``: they come from finished runs with defaults and all pairs, on Gaussian
classes with 512 features. A case uses the times of the run with the nearest number of rows per class, scaled.
"""

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pairloom.cluster.drive.driver import load_data
from pairloom.cluster.simulator import (
    RunForecast,
    SimulatedCluster,
    UnitCosts,
    Workload,
    costs_of_run,
    imagined_workload,
    simulate,
)
from pairloom.cluster.simulator.unit_costs import StageTimes
from pairloom.graphs.text import duration
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import DataConfig
from pairloom.pipeline.run.costs import RunSizes
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.stages.planning import plan_run

WORKERS = (2, 16, 64, 256, 1024, 4096)
CASES = [
    (n, rows, family)
    for n in (1000, 21_841)
    for rows in (200, 1000)
    for family in ("hub_neighbours", "complete")
]
TILES = (16, 64, 256, 1024, 4096)
PARTS = ("cases", "tiles", "what_ifs")
SAMPLES, FEATURES = 50_000, 512
#: Tasks that need more memory than a worker has are simulated nevertheless, and reported.
CLUSTER: dict[str, Any] = {"memory": "16GiB"}
#: Improvements, as changes of the cluster.
WHAT_IFS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "the driver collects results in batches (0.5 ms per task)": {"handle_seconds": 5e-4},
    "a store with a latency of 0.1 ms": {"latency": 1e-4},
    "a store with 50 GB/s": {"store": 50.0},
    "all of these": {"handle_seconds": 5e-4, "latency": 1e-4, "store": 50.0},
}
COLOURS = {
    "cores": "#4c9f70",
    "scheduler": "#d1495b",
    "driver": "#edae49",
    "latency": "#66a3d2",
    "store": "#00579c",
    "network": "#7a5195",
    "few units": "#999999",
    "one task at a time": "#cccccc",
    "start of the workers": "#e8e2d0",
}


def settings_plan() -> Run:
    """A plan with all defaults, of which only the settings are used, and that tasks read the rows from their source."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        y = np.repeat(np.arange(60), 20)
        X = random.standard_normal((60, 8))[y] + random.standard_normal((len(y), 8))
        for name, values in {"X_train": X, "y_train": y, "X_test": X[::9]}.items():
            np.save(
                Path(folder) / f"{name}.npy", values.astype(np.float32 if name != "y_train" else np.int64)
            )
        config = Config(data=DataConfig(features=folder))
        return plan_run(config, load_data(config))


def write_costs(path: Path, costs: dict[int, UnitCosts]) -> None:
    """Store times of units, by rows per class."""
    content = {
        rows: {
            "sizes": found.sizes._asdict(),
            "stages": {
                stage: {"seconds": times.seconds.round(4).tolist(), "warm_up": round(times.warm_up, 4)}
                for stage, times in found.stages.items()
            },
        }
        for rows, found in costs.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content) + "\n")


def read_costs(path: Path) -> dict[int, UnitCosts]:
    """Read times of units, by rows per class."""
    return {
        int(rows): UnitCosts(
            RunSizes(**found["sizes"]),
            {stage: StageTimes(np.array(t["seconds"]), t["warm_up"]) for stage, t in found["stages"].items()},
        )
        for rows, found in json.loads(path.read_text()).items()
    }


def shares(forecast: RunForecast) -> dict[str, float]:
    """Seconds by the resource that limits them."""
    seconds_of = {"start of the workers": forecast.startup}
    for stage in forecast.stages:
        seconds_of[stage.limited_by] = seconds_of.get(stage.limited_by, 0.0) + stage.seconds
    return seconds_of


def outcome(work: Workload, costs: UnitCosts, **keys: Any) -> dict[str, Any]:
    """The figures of a simulation."""
    started = time.perf_counter()
    forecast = simulate(work, costs, SimulatedCluster(**CLUSTER | keys))
    print(
        f"{work.sizes.classes} classes, {work.sizes.rows:.0f} rows, {work.sizes.edges} pairs, {keys}: "
        f"{duration(forecast.seconds)}, {forecast.efficiency:.0%}, {forecast.limited_by}; "
        f"simulated in {time.perf_counter() - started:.1f} s",
        flush=True,
    )
    return {
        "seconds": forecast.seconds,
        "efficiency": forecast.efficiency,
        "limited_by": forecast.limited_by,
        "shares": shares(forecast),
        "bytes": forecast.bytes_moved,
        "price": forecast.price,
        "stages": {stage.stage: [round(stage.seconds, 2), stage.limited_by] for stage in forecast.stages},
        "too_large": {stage.stage: stage.memory for stage in forecast.too_large},
    }


class Study:
    """The simulations of the page, in three parts."""

    def __init__(self, costs: dict[int, UnitCosts], quick: bool) -> None:
        self._plan, self._costs, self._quick = settings_plan(), costs, quick

    def _imagined(self, n: int, rows: int, family: str, **changes: Any) -> Workload:
        return imagined_workload(
            self._plan, classes=n, rows=rows, features=FEATURES, samples=SAMPLES, family=family, **changes
        )

    def _nearest(self, rows: int) -> UnitCosts:
        return self._costs[min(self._costs, key=lambda measured: abs(math.log(measured / rows)))]

    def cases(self) -> dict[str, Any]:
        """Every case on every number of workers."""
        outcomes = {}
        for n, rows, family in CASES[:2] if self._quick else CASES:
            work = self._imagined(n, rows, family)
            for count in (2, 64) if self._quick else WORKERS:
                outcomes[f"{n} {rows} {family}|{count}"] = outcome(work, self._nearest(rows), workers=count)
        return outcomes

    def tiles(self) -> dict[str, Any]:
        """All pairs of 1000 classes in tiles of several sizes."""
        outcomes = {}
        for tile in TILES[2:3] if self._quick else TILES:
            work = self._imagined(1000, 200, "complete", edges_per_tile=tile)
            for count in (64,) if self._quick else (16, 256, 1024, 4096):
                outcomes[f"{tile}|{count}"] = outcome(work, self._nearest(200), workers=count)
        return outcomes

    def what_ifs(self) -> dict[str, Any]:
        """Improvements, one by one and together."""
        outcomes = {}
        for name, keys in WHAT_IFS.items():
            for n, rows, family in CASES[:1] if self._quick else [CASES[3], CASES[6], CASES[5]]:
                work = self._imagined(n, rows, family)
                key = f"{name}|{n} {rows} {family}"
                outcomes[key] = outcome(work, self._nearest(rows), workers=1024, **keys)
        return outcomes


def table(results: dict[str, Any], key: str) -> list[str]:
    """Rows of a Markdown table: keys are "row|column"."""
    down = list(dict.fromkeys(name.split("|")[0] for name in results[key]))
    across = list(dict.fromkeys(name.split("|")[1] for name in results[key]))
    lines = [f"| | {' | '.join(across)} |", "|---|" + "---|" * len(across)]
    for row in down:
        cells = [_cell(results[key].get(f"{row}|{column}")) for column in across]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


def _cell(forecast: dict[str, Any] | None) -> str:
    if forecast is None:
        return ""
    return f"{duration(forecast['seconds'])}, {forecast['efficiency']:.0%}, {forecast['limited_by']}"


def draw(results: dict[str, Any], path: Path) -> None:
    """Bars: the share of the time that each resource limits, by number of workers; one panel per case."""
    cases = list(dict.fromkeys(name.split("|")[0] for name in results["cases"]))
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    panels = figure.subplots(2, -(-len(cases) // 2), sharey=True, squeeze=False).T.ravel()
    for panel, case in zip(panels, cases, strict=False):
        columns = [name.split("|")[1] for name in results["cases"] if name.startswith(f"{case}|")]
        bottom = np.zeros(len(columns))
        for resource, colour in COLOURS.items():
            outcomes = [results["cases"][f"{case}|{column}"] for column in columns]
            share = np.array([one["shares"].get(resource, 0.0) / one["seconds"] for one in outcomes])
            panel.bar(columns, share, bottom=bottom, color=colour, label=resource, width=0.85)
            bottom += share
        for x, column in enumerate(columns):
            label = duration(results["cases"][f"{case}|{column}"]["seconds"])
            panel.text(x, 1.02, label, ha="center", va="bottom", fontsize=7)
        n, rows, family = case.split()
        panel.set_title(f"{int(n):,} classes, {rows} rows, {family}", fontsize=9, pad=16)
        panel.set_ylim(0, 1)
        panel.set_xlabel("workers", fontsize=8)
        panel.tick_params(labelsize=8)
    panels[0].set_ylabel("share of the time, by what limits it", fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("docs/scaling"), help="default: docs/scaling")
    parser.add_argument(
        "--from-runs", type=Path, nargs="+", metavar="DIR", help="finished runs to take times from"
    )
    parser.add_argument("--quick", action="store_true", help="a few small cases, written nowhere")
    parser.add_argument(
        "--parts", nargs="*", default=PARTS, choices=PARTS, help="default: all; others are kept as they were"
    )
    chosen = parser.parse_args(arguments)
    if chosen.from_runs:
        found = map(costs_of_run, chosen.from_runs)
        write_costs(chosen.folder / "costs.json", {round(costs.sizes.rows): costs for costs in found})
    stored = chosen.folder / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() and not chosen.quick else {}
    study = Study(read_costs(chosen.folder / "costs.json"), chosen.quick)
    for part in chosen.parts:
        results[part] = getattr(study, part)()
    for key in results:
        print("\n".join(["", key, *table(results, key)]))
    if not chosen.quick:
        stored.write_text(json.dumps(results, indent=1) + "\n")
        if "cases" in results:
            draw(results, chosen.folder / "limits.svg")


if __name__ == "__main__":
    main()
