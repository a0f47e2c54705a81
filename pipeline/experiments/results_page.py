"""The page of results: one Markdown text from all records that the experiments have written, and its figures."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pairloom.pipeline.config.config import OutputExists
from pairloom.pipeline.experiments.earlier_page import Record, records_of_page
from pairloom.pipeline.experiments.finding import DIFFERS, HOLDS, OURS, PAPER, UNDECIDED
from pairloom.pipeline.experiments.perform import EXPERIMENTS
from pairloom.pipeline.storage.atomic_file import write_atomically

_PREFACE = """\
# Results

The experiments of the main paper, *Bridging performance gap between minimal and maximal SVM models* [S], repeated by
Pairloom on other data; then those of Hastie and Tibshirani [HT], Huang, Lin and Weng [HLW] and Ikeda [I] on data that
are simulated in the same way, and on tables ([references](maths.md)). `pairloom experiment results` writes this page
from the files of `pairloom experiment NAME`: do not edit it. A claim is a paper's or our own (Pairloom).
"""

_DATA = """\
Figures for digits, the synthetic sets and the simulated data need nothing but a clone. Those for clinc150, imagenette,
tinyimagenet50 and the tables need files: `pairloom data NAME` says where to get them, and their checksums.
"""


class Headline(NamedTuple):
    """A question of a reader of the papers, the beginnings of the claims that answer it, and a remark on the reason."""

    question: str
    claims: tuple[str, ...]
    why: str


_HEADLINES = (
    Headline(
        "Do trees of machines err more than all pairs (Tables 3 to 5)?",
        ("MIN1 errs more than maximal", "star (G2) errs more than maximal", "star errs more than maximal"),
        "By more with the authors' machines than with ours: each of theirs standardises the columns by its own samples,"
        " and is more confident about samples of third classes ([maths.md](maths.md), 1).",
    ),
    Headline(
        "Is it better to keep near classes (Table 3), and a small diameter (Table 4)?",
        ("MIN3 errs more", "MIN2 errs more", "path (G4) errs more", "fork (G3) errs more"),
        "Steps of the order that are undecided are small, here and in the paper.",
    ),
    Headline(
        "Do the couplings differ negligibly with all pairs?",
        ("the differences among the couplings are negligible",),
        "wlw2 and stratified hardly differ anywhere; normal falls behind. The reason is probably that it gives machines"
        " that know neither of a sample's likely classes the same weight as all others.",
    ),
    Headline(
        "Do half of the remaining pairs give almost all of the gain (Figure 4)?",
        ("uniform: half of the remaining", "confusion: half of the remaining"),
        "In the authors' released runs 90% of it, at random, on ImageNet-50.",
    ),
    Headline("Are the most confused pairs worth most?", ("the accuracy rises faster",), ""),
    Headline(
        "Does normal lead on small models?",
        ("uniform: normal is more accurate", "confusion: normal is more accurate"),
        "In random growth on the synthetic sets only; in growth by confusion nowhere.",
    ),
    Headline(
        "Does the accuracy fall late in random growth (ImageNet-50)?",
        ("uniform: the accuracy of wlw2 and stratified falls late",),
        "It does not in the runs that the authors released either, whose version may differ from the text.",
    ),
    Headline(
        "Is K(d, N-d) above the maximal model (ImageNet-50)?",
        ("K(d, N-d) is more accurate than the maximal",),
        "It loses less on features that were trained on the classes, like the paper's, than on transferred ones. The"
        " authors' released runs have K(25, 25) below all pairs, too.",
    ),
    Headline(
        "Does the centre of the first star matter for long (4.4)?", ("the centre matters for a long",), ""
    ),
    Headline(
        "Do the figures of the other papers come out?",
        ("[HT]", "[HLW]", "[I]"),
        "J nearest neighbours by pairs do not halve the error, and have more neighbours than printed; the bias of"
        " distances is that of the paper. In [HLW] Figure 2(a) all codes have small errors; the minimum of the loss has"
        " large ones for random codes, and an iteration that stops early does not.",
    ),
)

_HOW_TO_READ = """\
## How to read them

- The data and features are not the paper's: orderings can be compared, numbers cannot.
- Every claim is about a quantity, such as a difference of two errors, given with a 95% interval: a paired bootstrap
  over test samples and repetitions (`pipeline/experiments/paired_bootstrap.py`). The claim **holds** if the whole
  interval is as claimed, **differs** if none of it is, and is **undecided** otherwise. A claim on several quantities,
  such as the three couplings, must hold for each; their intervals are wider, so that their joint coverage is 95%.
- An interval covers other test samples and other draws, but not other training samples: the machines are trained once
  (in `elementwise`, on the same samples in other folds). It allows for chance in one claim, not for the number of
  claims on this page: of a hundred intervals, a few miss. If every repetition draws its own classes and samples
  (simulated data, splits of tables), repetitions are resampled. A few repetitions decide little. If nothing is random
  there is no interval, and the page says so.
- Limits that turn a word into a number are ours, and are given with the outcome: "almost all" of a gain is 80% of it, a
  model "reaches" another within 0.5%, "about half" is at most 0.6, odds are near 1 from 1/2 to 2. Differences between
  errors are negligible within 0.4%, since [S] calls 0.4 to 0.5% noticeable.
- Machines are **ours** or **the authors'**. The authors train `e1071::svm(x, y, probability = TRUE)` on one fold of
  four: columns standardised by its samples, cost 1, gamma 1/D, Platt's sigmoid cross-validated on the same samples
  (`--machines paper`, which is `fit_on = "fold_alone"`, or `paper-radial`). Ours are trained on one fold of four, in
  common units, with C = 10 / mean squared norm, and calibrated on the other folds. Earlier versions of this page called
  ours "as in the paper", which they are not. (The set imagenet50-synthetic-paper is as large as the paper's; its
  machines are ours.)
- **Adapted features** are the hidden layer of a network that was trained on the classes
  (`pipeline/experiments/network_answers.py`), as the paper's networks were. Other features are transferred from a
  network for other classes.
- The published curves of Figures 4 to 6 are those that the authors released with their code: ImageNet-50 by a ResNet,
  50 runs, linear machines, wlw2. Their version may differ from the printed text. The value 4.7 for CIFAR-10's blank
  cell in Table 4 is from there.
- With our machines, Tables 3 to 6 have rows by Platt's sigmoids and rows by distance: the same machines, d' and trees,
  with the scale that maximises the likelihood of the complete model of all classes on held-out samples. The paper's
  figures and claims use Platt's sigmoids.
- `code` is a digest of the source files that measured, or a commit of the repository. Rows and verdicts that are "kept
  from an earlier page" were read from there (`pairloom experiment results --keep PAGE`), because hours of repetitions
  were too expensive to repeat. They were measured by earlier code, so accuracies may differ in the second or third
  digit from those of the present code, and claims that were added later are missing.
- Earlier versions of this page attributed claims to the wrong side. The paper claims that a near centre makes a better
  star ([S] 4.1) and that errors of stratified lie where several classes meet ([S] 5.5). We claim that half of the pairs
  make up for a bad centre, that wlw2 and stratified gain more than normal from better machines, and that errors are
  those of [HLW] Table 1. "Falls late" and "bipartite above maximal" are claims about ImageNet-50 only.
- Earlier versions of this page also attributed more to the paper than it says. It does not claim that wlw2 and
  stratified err no more than normal: in 6 of the 13 rows of its Table 5 one of them errs more. In Table 3, MIN3 errs
  most, alone or with MIN2, in all rows but one (imagewoof, resnet34, adapt). The cost by confusion is that of its
  section 4.3. The network of CIFAR-10 in its tables is Page's, not a ResNet-18. That wlw2 and stratified follow the
  machine of the critical pair is its own finding (section 5.5), not ours.
- Our own claims were formed while looking at some of these sets. The number of hubs of `hub_neighbours` at each size
  was chosen after comparing test accuracies on imagenet50-synthetic and tinyimagenet50. Hubs of `hub_neighbours` are
  chosen by distance, those of K(d, N-d) are random.
- `hub_neighbours` alone has up to a quarter fewer pairs than the graphs it is compared with, because every class has
  the same number of neighbours; the rest is filled with the nearest pairs. Distances between class means contain less
  information than the confusion by which graphs grow. That is the confusion of the network, or of a softmax layer on
  the same features as its stand-in (`pipeline/experiments/network_answers.py`), trained on the training samples, out of
  fold. d' contains more information, but needs the machines of all pairs: that curve shows the value of better
  distances, not a way to save training. Both were added after `hub_neighbours` had lost to those graphs on test
  samples. They were settled on held-out training samples of imagenet50-synthetic, digits, tinyimagenet50 and
  imagenette, where neither another number of hubs nor neighbours by confusion were better throughout.
- `elementwise` has two controls that use the labels of the test samples, so they are not usable models. In "own classes
  only" a new machine is used for test samples of its two classes, the old machine for all others. Any further gain or
  loss of a coupling comes from the scores of the new machines for samples of classes on which they were not trained.
- The parameters of the mixtures in [HT] Figures 1 and 2 are unknown: `pipeline/experiments/mixtures.py` says how ours
  are drawn. [HT] Figure 3 has no printed numbers, and its sentence on the covariances is garbled: the square roots of
  the eigenvalues are uniform here, because the Bayes error is then below 1%, as stated.
- `encodings` has the tables of [HLW] Table 1, but other splits, fewer of them where their number is below 20, a coarse
  grid of C and gamma, and 10,000 rows of MNIST to draw from: `pipeline/experiments/encodings.py` lists the differences.
  An error is "that of the paper" within one point, a limit of ours; the variation of the published means is not known,
  so they are taken as exact.
- Training rows of usps are drawn from its original training set, test rows from its original test set, which is
  harder. Drawn from the pool of both, as code c2eb438 did, errors at 800 rows are two points below the printed ones.
- Random codes of four classes have fewer columns than the printed 10 and 15 log2 N, because there are not as many
  different ones. "Stopped after 3 sweeps" shows the result of an iteration from equal probabilities that stops early,
  as a program of 2004 may have done. It explains small errors in case a, but would make those of b and c larger than
  printed.
- Thresholds of LDA in `gaussians` are chosen out of fold, on held-out samples of a pair; here they hurt a little. Of
  several numbers of neighbours with as few errors, the largest is taken; [HT] do not say which they take.
- `curved` repeats [I], whose data are not available. Its regions were chosen among some dozens of layouts because
  learning through the coupling improves accuracy much there: the experiment shows that it can, not how often it does.
- Times are those of the measurement, in one process or on a cluster; they are not benchmarks.
"""

#: The page shows the figures of this set, or of the set with the most classes if it is missing.
_FIGURES_OF = "tinyimagenet50"

VERDICTS = (HOLDS, DIFFERS, UNDECIDED)
_WORDS = {HOLDS: "Holds", DIFFERS: "**Differs**", UNDECIDED: "*Undecided*"}


def write_results(out: Path, page: Path, *, keep: Path | None = None, force: bool = False) -> list[Path]:
    """Write the page of all records under the folder `out`, and its figures into a folder with the page's name.

    Measurements that are not there are kept from an earlier page if there is one. Existing files are replaced only
    with ``force``; without it nothing is written then.
    """
    records = read_records(out)
    if keep is not None:
        records += records_of_page(keep)
    if not records:
        raise FileNotFoundError(
            f"write_results: out must be a folder with results of experiments, got {out}."
            " Run `pairloom experiment NAME` first."
        )
    records = in_order(without_doubles(records))
    figures = {}
    for record in _shown(records).values():
        if keep is not None and record.get("kept"):
            written = keep.parent / _figure(keep.stem, record)
        else:
            written = out / record["data"] / f"{record['experiment']}.svg"
        figures[page.parent / _figure(page.stem, record)] = written.read_bytes()
    if not force and (there := [file for file in (page, *figures) if os.path.lexists(file)]):
        raise OutputExists(f"--page must be new, got {there[0]}, which exists. Pass --force to replace it.")
    for file, content in figures.items():
        write_atomically(file, content)
    write_atomically(page, results_page(records, page.stem).encode())
    return [page, *figures]


def read_records(out: Path) -> list[Record]:
    """The records under a folder."""
    return [json.loads(path.read_text()) for path in out.glob("*/*.json")]


def without_doubles(records: Iterable[Record]) -> list[Record]:
    """The records, but of several of one experiment on one set only the first."""
    first: dict[tuple[str, str], Record] = {}
    for record in records:
        first.setdefault((record["experiment"], record["data"]), record)
    return list(first.values())


def in_order(records: Iterable[Record]) -> list[Record]:
    """The records in the order of the paper, then by the name of the set."""
    order = list(EXPERIMENTS)
    return sorted(records, key=lambda record: (order.index(record["experiment"]), record["data"]))


def results_page(records: Sequence[Record], folder: str) -> str:
    """The page as Markdown, with links to the figures in a folder beside it."""
    sections = [
        _PREFACE,
        _in_short(records),
        _DATA,
        _counts(records),
        _listed(records, DIFFERS, "Where the outcome differs"),
        _listed(records, UNDECIDED, "Undecided at 95%"),
        _HOW_TO_READ,
        _circumstances(records),
    ]
    shown = _shown(records)
    for name in dict.fromkeys(record["experiment"] for record in records):
        of_experiment = [record for record in records if record["experiment"] == name]
        figures = [record for (of, _), record in shown.items() if of == name]
        sections.append(_section(of_experiment, figures, folder))
    return "\n".join(sections)


def _in_short(records: Sequence[Record]) -> str:
    """The questions of a reader, answered by the verdicts for each kind of machines and features."""
    lines = []
    for question, claims, why in _HEADLINES:
        verdicts: dict[str, list[tuple[str, str]]] = {}
        for record in records:
            found = [f for f in record["findings"] if _answers(f, claims)]
            verdicts.setdefault(_kind(record), []).extend((_verdict(f), _set(record)) for f in found)
        answers = "; ".join(f"{kind}{_tally(count)}" for kind, count in verdicts.items() if count)
        if answers:
            lines.append(f"- **{question}** {answers[0].upper()}{answers[1:]}." + (f" {why}" if why else ""))
    return "\n".join(["## In ten lines", "", *lines, ""])


def _answers(finding: Mapping[str, Any], claims: tuple[str, ...]) -> bool:
    """Whether a finding is about a claim of the main paper with one of these beginnings, or from a named paper."""
    return finding["source"] in claims or (
        finding["source"] == PAPER and str(finding["claim"]).startswith(claims)
    )


def _kind(record: Record) -> str:
    """The machines and features, before a tally; empty for experiments with their own data."""
    return "" if _has_own_data(record) else f"{_variant(record) or 'our machines'}: "


def _tally(verdicts: Sequence[tuple[str, str]]) -> str:
    """Numbers of verdicts (verdict, set) in words, with the sets on which something differs.

    Examples
    --------
    >>> _tally([("holds", "letter"), ("undecided", "usps"), ("holds", "usps"), ("differs", "digits")])
    'holds 2, differs 1 (digits), undecided 1'
    """
    count = Counter(verdict for verdict, _ in verdicts)
    sets = dict.fromkeys(of for verdict, of in verdicts if verdict == DIFFERS and of)
    named = {DIFFERS: f" ({', '.join(sets)})"} if sets else {}
    return ", ".join(
        f"{verdict} {count[verdict]}{named.get(verdict, '')}" for verdict in VERDICTS if count[verdict]
    )


def _shown(records: Sequence[Record]) -> dict[tuple[str, str], Record]:
    """{(experiment, variant): the record whose figure is shown}, of those that have one."""
    shown: dict[tuple[str, str], Record] = {}
    for record in records:
        if record.get("without_figure"):
            continue
        key = (record["experiment"], _variant(record))
        best = shown.setdefault(key, record)
        if _many(record) > _many(best):
            shown[key] = record
    return shown


def _variant(record: Record) -> str:
    """The unusual machines and features of a record; empty if they are ours and transferred."""
    names = {"ours": [], "paper": ["the authors' machines"], "paper-radial": ["the authors' radial machines"]}
    adapted = ["adapted features"] if record.get("adapted") else []
    return ", ".join(adapted + names[record.get("machines", "ours")])


def _many(record: Record) -> tuple[bool, int]:
    return str(record["data"]).split(".")[0] == _FIGURES_OF, record["classes"]


def _figure(folder: str, record: Record) -> str:
    return f"{folder}/{record['experiment']}{'' if _has_own_data(record) else '-' + record['data']}.svg"


def _has_own_data(record: Record) -> bool:
    """Whether the experiment read nothing from the set on which it was run."""
    return bool(record.get("simulated") or record.get("tables"))


def _data(record: Record) -> str:
    """The data of the experiment, as text."""
    if _has_own_data(record):
        return EXPERIMENTS[record["experiment"]].tables_in_words if record.get("tables") else "simulated data"
    return ", ".join(part for part in (_set(record), _variant(record)) if part)


def _set(record: Record) -> str:
    """The name of the set; empty if the experiment read none."""
    return "" if _has_own_data(record) else str(record["data"]).split(".")[0]


def _counts(records: Sequence[Record]) -> str:
    """How many claims hold, differ and are undecided, by their source: the main paper first and ours last."""
    verdicts = [(f["source"], _verdict(f)) for record in records for f in record["findings"]]
    count = Counter(verdicts)
    sources = sorted({source for source, _ in verdicts}, key=lambda source: (*_rank(source), source))
    rows = [(source, *(count[source, verdict] for verdict in VERDICTS)) for source in sources]
    rows.append(("all", *(sum(row[1 + k] for row in rows) for k in range(len(VERDICTS)))))
    return "\n".join(
        [
            "## Verdicts",
            "",
            f"{len(verdicts)} comparisons of a claim with a set:",
            "",
            *_markdown(("whose", *VERDICTS), rows),
            "",
        ]
    )


def _verdict(finding: Mapping[str, Any]) -> str:
    """The verdict of a finding. Records from before claims had intervals only say whether the claim holds."""
    return str(finding.get("verdict") or (HOLDS if finding["holds"] else DIFFERS))


def _rank(source: str) -> tuple[bool, bool]:
    """The main paper, other papers, ours."""
    return source != PAPER, source == OURS


def _listed(records: Sequence[Record], verdict: str, title: str) -> str:
    """The claims with this verdict, the main paper's first and ours last."""
    cases = [(f, record) for record in records for f in record["findings"] if _verdict(f) == verdict]
    cases.sort(key=lambda case: _rank(case[0]["source"]))
    rows = [(f["source"], f["claim"], _data(record), _here(f)) for f, record in cases]
    table = _markdown(("whose", "claim", "set", "here"), rows) if rows else ["None."]
    return "\n".join([f"## {title}", "", *table, ""])


def _here(finding: Mapping[str, Any]) -> str:
    return str(finding["here"]) + ("" if finding.get("comparisons") else " (no interval)")


def _circumstances(records: Sequence[Record]) -> str:
    sets = {
        record["data"]: record
        for record in records
        if not _has_own_data(record) and record.get("machines", "ours") == "ours"
    }
    return "\n".join(
        [
            "## Circumstances",
            "",
            *(_of_sets(sets) if sets else []),
            # That of a kept record may be any of those on its page.
            *(
                f"- {computer}"
                for computer in dict.fromkeys(
                    c for record in records for c in record["computer"].splitlines()
                )
            ),
            "",
        ]
    )


def _of_sets(sets: Mapping[str, Record]) -> list[str]:
    """The settings of the machines, and the table of the sets."""
    shown = ("classes", "training samples", "test samples", "features")
    rows = [
        (
            _data(r) + (" (synthetic)" if r["synthetic"] else ""),
            *(r[key] for key in shown),
            r["settings"]["C"],
        )
        for _, r in sorted(sets.items())
    ]
    settings = sets[min(sets)]["settings"]
    return [
        f"Our machines: {settings['folds']} folds, fit_on = {settings['fit_on']!r}, C = 'scale', as in the table."
        " The authors': fit_on = 'fold_alone', C = 1. Neither whitening nor calibration of the coupled model.",
        "",
        *_markdown(("set", *shown, "C"), rows),
        "",
    ]


def _section(records: Sequence[Record], figures: Sequence[Record], folder: str) -> str:
    first = records[0]
    source = "" if first["shows"].startswith("[") else f"{PAPER} "
    lines = [f"## {first['experiment']}", "", f"{source}{first['shows']}.", ""]
    for shown in figures:
        lines += [f"![{shown['experiment']} on {_data(shown)}]({_figure(folder, shown)})", ""]
        # The figure may have fewer repetitions than verdicts that were copied from an earlier page.
        drawn = shown | {"repetitions": shown.get("figure_repetitions", shown["repetitions"])}
        lines += [f"The figure is of {_data(shown)}: `{_command(drawn)}`.", ""]
    beside = _beside_the_paper(records)
    if beside:
        lines += [*_with_the_paper(beside), ""]
    for record in records:
        lines += [
            f"**{_data(record)}**: `{_command(record)}`{_settings(record)}. {_took(record)}.",
            "",
            *([] if record in beside else [*_markdown(record["table"][0], record["table"][1:]), ""]),
            *(
                f"- {_WORDS[_verdict(f)]}: {f['claim']} ({f['source']}). Here: {_here(f)}."
                for f in record["findings"]
            ),
            "",
        ]
    return "\n".join(lines)


def _beside_the_paper(records: Sequence[Record]) -> list[Record]:
    """The records that share a table with published rows: those of the newest columns, if there are such rows."""
    newest = min(records, key=lambda record: bool(record.get("kept")))
    same = [record for record in records if record["table"][0] == newest["table"][0]]
    return same if newest.get("published") else []


def _with_the_paper(records: Sequence[Record]) -> list[str]:
    """One table with the rows of all sets and those of the paper."""
    published = next(record["published"] for record in records if record.get("published"))
    ours = [
        (f"{_data(record)}, {name}", *values) for record in records for name, *values in record["table"][1:]
    ]
    theirs = [(f"{PAPER} {name}", *values) for name, *values in published]
    return [
        "Our rows first, then those that the paper prints or its authors released, which are of other sets and other"
        " networks: an order within a row can be compared, numbers cannot.",
        "",
        *_markdown(records[0]["table"][0], [*ours, *theirs]),
    ]


def _command(record: Record) -> str:
    """The command that repeats the measurement."""
    name = "adapted" if record.get("adapted") else record["experiment"]
    data = "" if _has_own_data(record) else f" --data {record.get('source', record['data'])}"
    if record.get("machines", "ours") != "ours":
        data += f" --machines {record['machines']}"
    repeated = f" --repetitions {record['repetitions']}" if record["repetitions"] > 1 else ""
    shown = f" --pictures {record['pictures']}" if record.get("pictures") else ""
    return f"pairloom experiment {name}{data}{repeated} --seed {record['seed']}{shown}"


def _settings(record: Record) -> str:
    """The settings of the machines. An experiment with its own data has its own machines."""
    words = ", ".join(f"{name} = {value}" for name, value in record["settings"].items())
    if _has_own_data(record):
        words = record.get("machines_in_words") or EXPERIMENTS[record["experiment"]].machines
    return f" (machines: {words})"


def _took(record: Record) -> str:
    code = f", code {record['code']}" if record.get("code") else ""
    kept = ", kept from an earlier page" if record.get("kept") else ""
    return f"It took {record['seconds']:g} s on {record['date']}{code}{kept}"


def _markdown(columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [_line(columns), _line(["---"] * len(columns)), *(_line(row) for row in rows)]


def _line(row: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell) for cell in row) + " |"
