"""Records read back from a page of results: measurements that are kept although their files are gone.

Some measurements take hours, and the files from which the page is made are not in the repository. The page holds all
that it shows of them, so the records are read from there. What a record holds beyond that, such as the limits of the
intervals as numbers, is lost.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pairloom.pipeline.experiments.experiment import cells
from pairloom.pipeline.experiments.finding import DIFFERS, HOLDS, UNDECIDED
from pairloom.pipeline.experiments.perform import EXPERIMENTS

__all__ = ["records_of_page"]

Record = dict[str, Any]

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_MEASURED = re.compile(
    r"^\*\*(?P<label>[^*]+)\*\*: `(?P<command>[^`]+)` \(machines: (?P<machines>.*)\)\."
    r" It took (?P<seconds>\S+) s on (?P<date>[\d-]+)(?:, code (?P<code>\w+))?(?:, kept from an earlier page)?\.$",
    re.MULTILINE,
)
_FIGURE = re.compile(r"^The figure is of (?P<label>.+): `(?P<command>[^`]+)`\.$", re.MULTILINE)
_FINDING = re.compile(
    r"^- (?P<verdict>Holds|\*\*Differs\*\*|\*Undecided\*): (?P<claim>.*) \((?P<source>\[\w+\]|Pairloom)\)\."
    r" Here: (?P<here>.*)\.$"
)
_VERDICTS = {"Holds": HOLDS, "**Differs**": DIFFERS, "*Undecided*": UNDECIDED}
_HOLDS = {HOLDS: True, DIFFERS: False, UNDECIDED: None}
_NO_INTERVAL = " (no interval)"
_SYNTHETIC = " (synthetic)"
#: The numbers of a set, as the page has them, and as records have them.
_OF_A_SET = ("classes", "training samples", "test samples", "features")


def records_of_page(page: Path) -> list[Record]:
    """The records of a page that `pairloom experiment results` wrote."""
    sections = _sections(page.read_text())
    if "Circumstances" not in sections:
        raise ValueError(
            f"records_of_page: page must be written by `pairloom experiment results`, got {page}."
        )
    sets, computers = _circumstances(sections["Circumstances"])
    return [
        record
        for name, text in sections.items()
        if name in EXPERIMENTS
        for record in _of_experiment(name, text, sets, computers)
    ]


def _sections(text: str) -> dict[str, str]:
    parts = _SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _circumstances(text: str) -> tuple[dict[str, Record], str]:
    """{set: its numbers}, and the computers, one per line."""
    sets = {}
    for label, *numbers, _ in _table(text.splitlines())[1:]:
        name = label.removesuffix(_SYNTHETIC)
        sets[name] = dict(zip(_OF_A_SET, map(int, numbers), strict=True)) | {"synthetic": name != label}
    return sets, "\n".join(line[2:] for line in text.splitlines() if line.startswith("- "))


def _of_experiment(name: str, text: str, sets: Mapping[str, Record], computers: str) -> Iterator[Record]:
    measured = list(_MEASURED.finditer(text))
    shows = text.strip().partition("\n")[0].removeprefix("[S] ").removesuffix(".")
    drawn = {figure["label"]: _repetitions(figure["command"]) for figure in _FIGURE.finditer(text)}
    labels = [one["label"] for one in measured]
    beside_the_paper = _table(text[: measured[0].start()].splitlines()) if measured else []
    ends = [one.start() for one in measured[1:]] + [len(text)]
    for one, end in zip(measured, ends, strict=True):
        lines = text[one.end() : end].splitlines()
        record = _measurement(name, one, sets) | {
            "shows": shows,
            "computer": computers,
            "published": cells(EXPERIMENTS[name].published),
            "table": _table(lines) or _rows_of(one["label"], labels, beside_the_paper),
            "findings": [_finding(found) for line in lines if (found := _FINDING.match(line))],
            "kept": True,
        }
        if one["label"] not in drawn:
            record["without_figure"] = True
        elif drawn[one["label"]] != record["repetitions"]:
            record["figure_repetitions"] = drawn[one["label"]]
        yield record


def _measurement(name: str, one: re.Match[str], sets: Mapping[str, Record]) -> Record:
    """What a record says about the measurement: data, settings, time and code."""
    command, experiment = one["command"], EXPERIMENTS[name]
    own_data = experiment.simulated or bool(experiment.tables)
    machines, adapted = _option(command, "machines") or "ours", " adapted " in command
    source = _option(command, "data") or experiment.data[0]
    record = {
        "experiment": name,
        "data": ".".join(
            [
                source if own_data else one["label"].partition(",")[0],
                *(["adapted"] if adapted else []),
                *([] if machines == "ours" else [machines]),
            ]
        ),
        "source": source,
        "pictures": _option(command, "pictures"),
        "machines": machines,
        "adapted": adapted,
        "simulated": experiment.simulated,
        "tables": bool(experiment.tables),
        "repetitions": _repetitions(command),
        "seed": int(_option(command, "seed") or 0),
        "seconds": float(one["seconds"]),
        "date": one["date"],
        "code": one["code"],
    }
    if own_data:
        return record | {"classes": 0, "settings": {}, "machines_in_words": one["machines"]}
    settings = dict(part.split(" = ", 1) for part in one["machines"].split(", "))
    return record | {"settings": settings, **_numbers_of(one["label"], sets)}


def _numbers_of(label: str, sets: Mapping[str, Record]) -> Record:
    """The numbers of a set. The page lists sets once, and not again for other machines."""
    names = [name for name in sets if f"{label}, ".startswith(f"{name}, ")]
    if not names:
        raise ValueError(
            f"records_of_page: the circumstances must have the set of {label!r}, got {', '.join(sets)}."
        )
    return sets[max(names, key=len)]


def _option(command: str, name: str) -> str | None:
    found = re.search(rf" --{name} (\S+)", command)
    return found and found[1]


def _repetitions(command: str) -> int:
    return int(_option(command, "repetitions") or 1)


def _table(lines: Sequence[str]) -> list[list[str]]:
    """The cells of a Markdown table: the heading, then the rows."""
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]
    return [*rows[:1], *rows[2:]]


def _rows_of(label: str, labels: Sequence[str], table: Sequence[list[str]]) -> list[list[str]]:
    """The rows of one measurement in the table beside the paper's, whose first cells begin with its label."""
    kept = []
    for first, *values in table[1:]:
        whose = max((other for other in labels if first.startswith(f"{other}, ")), key=len, default="")
        if whose == label:
            kept.append([first.removeprefix(f"{label}, "), *values])
    return [*table[:1], *kept]


def _finding(found: re.Match[str]) -> Record:
    verdict, here = _VERDICTS[found["verdict"]], found["here"]
    words = here.removesuffix(_NO_INTERVAL)
    return {
        "source": found["source"],
        "claim": found["claim"],
        "here": words,
        "holds": _HOLDS[verdict],
        "verdict": verdict,
        # The page needs to know only whether there were any.
        "comparisons": [] if words != here else [{"what": words}],
    }
