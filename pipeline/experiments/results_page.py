"""The page of results: all records that the experiments have written as one Markdown text, and its figures."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pairloom.pipeline.experiments.catalogue import EXPERIMENTS
from pairloom.pipeline.experiments.experiment import PAPER
from pairloom.pipeline.storage.atomic_file import write_atomically

_PREFACE = """\
# Results

The experiments of the main paper, *Bridging performance gap between minimal and maximal SVM models* [S], repeated by
Pairloom on other data. Written by `pairloom experiment results` from the files that `pairloom experiment NAME` leaves:
do not edit. A claim is the paper's [S] or our own (Pairloom); where it does not hold, that is said first.

How to read them:

- The data and features are not the paper's: an ordering can be compared, a number cannot.
- Whether a claim holds is the sign of a difference of means, not a test: where a difference is small, look at its
  standard error in the CSV files. "Almost all" of a gain is 80% of it, a model "reaches" another within 0.5%, wins
  are "about equal" within a quarter: limits of ours. Nor does the sign say what other test samples would give: of
  2500 samples, a few tenths of a percent are a handful.
- Our own claims were formed while looking at some of these sets. How many hubs `hub_neighbours` has at a size was
  settled after comparing test accuracies on imagenet50-synthetic and tinyimagenet50; that wlw2 follows the critical
  machine was noticed on every set but clinc150. Hubs of `hub_neighbours` are chosen by distance, those of K(d, N-d)
  are random.
- `hub_neighbours` alone has up to a quarter fewer pairs than the graphs it is compared with, as every class has the
  same number of neighbours; what is left is filled with the nearest pairs. By distances between class means it knows
  as much before training as graphs grown by confusion do (of the nearest class mean). By d' it knows more, but d'
  takes the machines of all pairs: that curve says what better distances are worth, not how to save training. Both
  were added when it had been seen to lose to those on test samples, and settled on held-out training samples of
  imagenet50-synthetic, digits, tinyimagenet50 and imagenette, where neither another number of hubs nor neighbours by
  confusion were better throughout.
- `curved` is of [I], whose data are not at hand. Its regions were chosen among some dozens of layouts as ones where
  learning through the coupling gains much accuracy: that it can is what the experiment shows, not how often it does.
- Times are what the measurement took, in one process or on a cluster: they are no benchmark.
"""

#: The page shows the figures of this set, or of the set with the most classes if it is missing.
_FIGURES_OF = "tinyimagenet50"

#: The JSON file of one experiment on one set.
Record = dict[str, Any]


def write_results(out: Path, page: Path) -> list[Path]:
    """Write the page of all records under the folder `out`, and its figures into a folder with the page's name."""
    records = read_records(out)
    figures = {}
    for record in _shown(records).values():
        written = out / record["data"] / f"{record['experiment']}.svg"
        figures[page.parent / _figure(page.stem, record)] = written.read_bytes()
    for file, content in figures.items():
        write_atomically(file, content)
    write_atomically(page, results_page(records, page.stem).encode())
    return [page, *figures]


def read_records(out: Path) -> list[Record]:
    """The records under a folder, in the order of the paper, then by the name of the set."""
    records = [json.loads(path.read_text()) for path in out.glob("*/*.json")]
    if not records:
        raise FileNotFoundError(
            f"read_records: out must be a folder with results of experiments, got {out}."
            " Run `pairloom experiment NAME` first."
        )
    order = list(EXPERIMENTS)
    return sorted(records, key=lambda record: (order.index(record["experiment"]), record["data"]))


def results_page(records: Sequence[Record], folder: str) -> str:
    """The page as Markdown, with links to the figures in a folder beside it."""
    sections = [_PREFACE, _differences(records), _circumstances(records)]
    for name, shown in _shown(records).items():
        of_experiment = [record for record in records if record["experiment"] == name]
        sections.append(_section(of_experiment, shown, folder))
    return "\n".join(sections)


def _shown(records: Sequence[Record]) -> dict[str, Record]:
    """{experiment: the record whose figure is shown}."""
    shown: dict[str, Record] = {}
    for record in records:
        best = shown.setdefault(record["experiment"], record)
        if _many(record) > _many(best):
            shown[record["experiment"]] = record
    return shown


def _many(record: Record) -> tuple[bool, int]:
    return record["data"] == _FIGURES_OF, record["classes"]


def _figure(folder: str, record: Record) -> str:
    return f"{folder}/{record['experiment']}-{record['data']}.svg"


def _differences(records: Sequence[Record]) -> str:
    """The claims that do not hold, the paper's before ours."""
    failed = [
        (finding, record) for record in records for finding in record["findings"] if not finding["holds"]
    ]
    failed.sort(key=lambda case: case[0]["source"] != PAPER)
    total = sum(len(record["findings"]) for record in records)
    rows = [(f["source"], f["claim"], r["data"], f["here"]) for f, r in failed]
    return "\n".join(
        [
            "## Where the outcome differs",
            "",
            f"{total - len(failed)} of {total} comparisons come out as claimed; these {len(failed)} do not.",
            "",
            *_markdown(("whose", "claim", "set", "here"), rows),
            "",
        ]
    )


def _circumstances(records: Sequence[Record]) -> str:
    sets = {record["data"]: record for record in records}
    shown = ("classes", "training samples", "test samples", "features")
    rows = [
        (name + (" (synthetic)" if r["synthetic"] else ""), *(r[key] for key in shown), r["settings"]["C"])
        for name, r in sorted(sets.items())
    ]
    settings = sets[min(sets)]["settings"]
    return "\n".join(
        [
            "## Circumstances",
            "",
            f"Machines as in the paper: {settings['folds']} folds, fit_on = {settings['fit_on']!r}, C = 'scale',"
            " neither whitening nor calibration of the coupled model.",
            "",
            *_markdown(("set", *shown, "C"), rows),
            "",
            *(f"- {computer}" for computer in dict.fromkeys(record["computer"] for record in records)),
            "",
        ]
    )


def _section(records: Sequence[Record], shown: Record, folder: str) -> str:
    # Experiments of other papers name theirs.
    paper = "" if shown["shows"].startswith("[") else f"{PAPER} "
    lines = [f"## {shown['experiment']}", "", f"{paper}{shown['shows']}.", ""]
    lines += [f"![{shown['experiment']} on {shown['data']}]({_figure(folder, shown)})", ""]
    for record in records:
        times = (
            f"{record['repetitions']} repetitions, seed {record['seed']}, "
            if record["repetitions"] > 1
            else ""
        )
        lines += [
            f"**{record['data']}** ({times}{record['seconds']:g} s, {record['date']})",
            "",
            *_markdown(record["table"][0], record["table"][1:]),
            "",
            *(
                f"- {'Holds' if f['holds'] else '**Differs**'}: {f['claim']} ({f['source']}). Here: {f['here']}."
                for f in record["findings"]
            ),
            "",
        ]
    return "\n".join(lines)


def _markdown(columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [_line(columns), _line(["---"] * len(columns)), *(_line(row) for row in rows)]


def _line(row: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell) for cell in row) + " |"
