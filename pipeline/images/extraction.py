"""Extract features: from a folder of pictures and a network to a store.

Threads prepare pictures while the network works on earlier ones; at most three batches are in memory. A row depends
only on its picture, the number of its copy and the settings, and a batch only on its rows, so an extraction that was
killed and resumed writes the same bytes as one that was not.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnxruntime
import PIL
from numpy.typing import NDArray

from pairloom.graphs.text import listed
from pairloom.pipeline.images.image_folder import (
    POOL,
    TEST,
    ImageFolder,
    Picture,
    list_images,
    wanted_classes,
)
from pairloom.pipeline.images.network import Network, open_network
from pairloom.pipeline.images.network_outputs import named_outputs, network_accuracy, outputs_of_classes
from pairloom.pipeline.images.picture import CheckedPicture, check_pictures, decode_picture, stamps_of, twins
from pairloom.pipeline.images.picture_store import (
    PictureRows,
    PictureStore,
    StoreContent,
    checked_before,
    rows_of_parts,
    split_pool,
    untested_classes,
)
from pairloom.pipeline.images.preprocessing import (
    RECIPE,
    Preprocessing,
    augmented,
    centre_crop,
    chosen_preprocessing,
    draw_of_copy,
    normalised,
    output_names,
    preprocessing_metadata,
)
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.threads import pieces

__all__ = ["CPU", "Extracted", "ExtractionOptions", "ProgressOfPictures", "extract_features"]

CPU = "CPUExecutionProvider"
_FORMAT = 1
_SHOWN = 20


class ProgressOfPictures(Protocol):
    """Shows the progress of an extraction."""

    def begin(self, what: str, done: int, total: int) -> None:
        """Start a step, of whose ``total`` pictures ``done`` are finished."""

    def advance(self, count: int) -> None:
        """Count more finished pictures."""

    def note(self, line: str) -> None:
        """Show a message."""


@dataclass(frozen=True)
class ExtractionOptions:
    """Options of an extraction: those of ``pairloom features``.

    Parameters
    ----------
    layer, layout : str, optional
        See `network.open_network`.
    classes : str, optional
        See `image_folder.wanted_classes`.
    outputs : str, optional
        See `network_outputs.named_outputs`.
    augment : int, optional
        Number of rows up to which every training class is filled with augmented copies.
    test_share : float, optional
        Share of every class to set apart as test pictures.
    skip_broken : bool
        Whether broken pictures are left out. Otherwise they are an error.
    probabilities : bool
        Whether to store the network's own probabilities.
    preprocessing : mapping
        Fields of `Preprocessing` that replace those of the model's metadata.
    seed : int
        Seed of the copies and of the split.
    batch : int
        Pictures per run of the network.
    threads : int
        Threads that prepare pictures, and threads of the network.
    provider : str
        Execution provider of onnxruntime.
    """

    layer: str | None = None
    layout: str | None = None
    classes: str | None = None
    outputs: str | None = None
    augment: int | None = None
    test_share: float | None = None
    skip_broken: bool = False
    probabilities: bool = True
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch: int = 32
    threads: int = os.cpu_count() or 1
    provider: str = CPU


class Extracted(NamedTuple):
    """The result of an extraction: the facts that ``pairloom features`` prints."""

    out: str
    rows: dict[str, int]
    copies: int
    features: int
    classes: int
    layer: str
    positions: tuple[int, ...]
    output: str | None
    outputs: int
    softmax: bool
    broken: list[str]
    network_accuracy: float | None
    preprocessing: dict[str, Any]
    was_finished: bool


def extract_features(
    images: Path, model: Path, out: Path, options: ExtractionOptions, progress: ProgressOfPictures
) -> Extracted:
    """Fill a store with the features of pictures, or finish an interrupted one.

    Raises
    ------
    StoreRefused
        If ``out`` is something else, has other settings, or is being filled by another process.
    ValueError
        If the folder, the network, a picture or an option is not as it must be.
    """
    store = PictureStore(out)
    store.check()
    folder = list_images(images, None if options.classes is None else wanted_classes(options.classes))
    network, how = _opened_network(model, options)
    if folder.ignored:
        progress.note(
            f"Passed over {len(folder.ignored)} files that are not pictures: {listed(folder.ignored)}."
        )
    # Before the network runs: broken pictures are reported now and not after hours, and the rows are known.
    stamps, checked = _checked(folder, store, options, progress)
    broken = _broken(checked, options, progress)
    parts = split_pool(_sound(folder, checked), options.test_share, options.seed)
    for line in _first(list(twins(parts, checked))):
        progress.note(f"Warning: {line}")
    rows = rows_of_parts(parts, folder.classes, options.augment)
    if untested := untested_classes(rows, folder.classes):
        progress.note(f"Warning: There are no test pictures of {listed(untested, _SHOWN)}.")
    content = _content(folder, rows, network, options)
    settings = _settings(folder, checked, broken, network, how, content, options)
    # Also for a finished store: `held` checks that it has the same settings, and nothing is left to do.
    with store.held(settings):
        finished = store.is_finished
        if not finished:
            store.remember(stamps, checked)
            store.prepare(content, {"made_of": settings, "model": model.name})
            _fill(store, network, how, rows, images, checked, options, progress)
            store.finish()
    tested = TEST if TEST in rows else POOL
    return Extracted(
        out=str(out),
        rows={part: len(of_part) for part, of_part in rows.items()},
        copies=sum(int((of_part.copies > 0).sum()) for of_part in rows.values()),
        features=network.n_features,
        classes=len(folder.classes),
        layer=network.layer,
        positions=network.positions,
        output=network.output if content.n_outputs else None,
        outputs=content.n_outputs,
        softmax=network.softmax,
        broken=broken,
        network_accuracy=network_accuracy(out, tested),
        preprocessing=how._asdict(),
        was_finished=finished,
    )


def _opened_network(model: Path, options: ExtractionOptions) -> tuple[Network, Preprocessing]:
    network = open_network(
        model, layer=options.layer, layout=options.layout, provider=options.provider, threads=options.threads
    )
    taken = network.input
    how = chosen_preprocessing(
        options.preprocessing, preprocessing_metadata(network.metadata), taken.size, taken.channels
    )
    network.measure(how.crop)
    return network, how


def _checked(
    folder: ImageFolder, store: PictureStore, options: ExtractionOptions, progress: ProgressOfPictures
) -> tuple[dict[str, list[int]], dict[str, CheckedPicture]]:
    """Check every picture, except those that an earlier process checked and that have not changed since."""
    files = [picture.file for pictures in folder.parts.values() for picture in pictures]
    stamps = stamps_of(folder.root, files)
    stamps_before, checked = checked_before(store)
    new = [file for file in files if file not in checked or stamps[file] != stamps_before[file]]
    if new:
        progress.begin("reading", len(files) - len(new), len(files))
        checked |= check_pictures(folder.root, new, options.threads, progress.advance)
    return stamps, {file: checked[file] for file in files}


def _broken(
    checked: Mapping[str, CheckedPicture], options: ExtractionOptions, progress: ProgressOfPictures
) -> list[str]:
    broken = [file for file, picture in checked.items() if picture.problem is not None]
    lines = _first([f"{file}: {checked[file].problem}" for file in broken])
    if broken and not options.skip_broken:
        raise ValueError(
            f"{len(broken)} of {len(checked)} pictures are broken:\n  "
            + "\n  ".join(lines)
            + "\nReplace them, or pass --broken skip to leave them out."
        )
    for line in lines:
        progress.note(f"Skipped {line}")
    return broken


def _first(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more"]


def _sound(folder: ImageFolder, checked: Mapping[str, CheckedPicture]) -> dict[str, tuple[Picture, ...]]:
    return {
        part: tuple(picture for picture in pictures if checked[picture.file].problem is None)
        for part, pictures in folder.parts.items()
    }


def _content(
    folder: ImageFolder, rows: Mapping[str, PictureRows], network: Network, options: ExtractionOptions
) -> StoreContent:
    n_outputs = network.n_outputs if options.probabilities else 0
    content = StoreContent(rows, [row.name for row in folder.classes], network.n_features, n_outputs)
    if options.outputs is not None:
        names = named_outputs(options.outputs, folder.classes)
        of_class = outputs_of_classes(names, folder.classes, network.n_outputs)
        return content._replace(outputs=names, output_of_class=of_class)
    names = output_names(network.metadata) or []
    return content._replace(outputs=names) if n_outputs and len(names) == n_outputs else content


def _settings(
    folder: ImageFolder,
    checked: Mapping[str, CheckedPicture],
    broken: list[str],
    network: Network,
    how: Preprocessing,
    content: StoreContent,
    options: ExtractionOptions,
) -> dict[str, Any]:
    """Everything that the bytes of a store depend on."""
    content_of_pictures = [
        [part, picture.file, picture.label, checked[picture.file].digest]
        for part, pictures in folder.parts.items()
        for picture in pictures
    ]
    copies = {"rows_per_class": options.augment, **RECIPE} if options.augment else None
    return {
        "format": _FORMAT,
        "pictures": {"number": len(checked), "digest": digest_of(content_of_pictures), "broken": broken},
        "classes": [list(row) for row in folder.classes],
        "outputs": digest_of(content.outputs) if content.outputs else None,
        "network": {
            "digest": network.digest,
            "layer": network.layer,
            "output": network.output,
            "probabilities": content.n_outputs > 0,
            "layout": network.input.layout,
            "batch": options.batch,
            "provider": options.provider,
        },
        "preprocessing": how._asdict(),
        "augmentation": copies,
        "test_share": options.test_share,
        "seed": options.seed if copies or options.test_share else None,
        "versions": {"onnxruntime": onnxruntime.__version__, "pillow": PIL.__version__},
    }


def _fill(
    store: PictureStore,
    network: Network,
    how: Preprocessing,
    rows: Mapping[str, PictureRows],
    images: Path,
    checked: Mapping[str, CheckedPicture],
    options: ExtractionOptions,
    progress: ProgressOfPictures,
) -> None:
    """Fill the missing blocks of all parts."""
    missing = [(part, block) for part in rows for block in store.missing(part)]
    total, left = sum(map(len, rows.values())), sum(block.stop - block.start for _, block in missing)
    progress.begin("features", total - left, total)

    def prepared(place: tuple[str, int]) -> NDArray[np.float32]:
        part, row = place
        file, copy = rows[part].files[row], int(rows[part].copies[row])
        return _prepared(images, file, copy, checked[file].digest, how, options.seed)

    places = ((part, row) for part, block in missing for row in range(block.start, block.stop))
    pool = ThreadPoolExecutor(options.threads)
    try:
        # Two batches ahead, so that neither the threads nor the network wait, in bounded memory.
        pictures = _ahead(pool, prepared, places, 2 * options.batch)
        for part, block in missing:
            files = rows[part].files[block]
            store.write(part, block, *_features(network, pictures, files, options.batch, progress))
    finally:
        pool.shutdown(cancel_futures=True)


def _prepared(
    images: Path, file: str, copy: int, digest: str, how: Preprocessing, seed: int
) -> NDArray[np.float32]:
    """The input of the network for a picture, or for one of its copies."""
    data = (images / file).read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(
            f"{images / file} must not change while features are extracted, but it was written to."
        )
    image = decode_picture(data, how.mode)
    cropped = augmented(image, how, draw_of_copy(seed, file, copy)) if copy else centre_crop(image, how)
    return normalised(cropped, how)


def _ahead(
    pool: ThreadPoolExecutor,
    work: Callable[[tuple[str, int]], NDArray[np.float32]],
    places: Iterable[tuple[str, int]],
    most: int,
) -> Iterator[NDArray[np.float32]]:
    """Results in order, with at most ``most`` of them computed ahead."""
    waiting: deque[Future[NDArray[np.float32]]] = deque()
    for place in places:
        waiting.append(pool.submit(work, place))
        if len(waiting) >= most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _features(
    network: Network,
    pictures: Iterator[NDArray[np.float32]],
    files: tuple[str, ...],
    batch: int,
    progress: ProgressOfPictures,
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Features and probabilities of the next pictures, batch by batch."""
    features, shares = [], []
    for some in pieces(len(files), batch):
        X, p = network(np.stack(list(islice(pictures, some.stop - some.start))))
        strange = np.flatnonzero(~np.isfinite(X).all(axis=1))
        if len(strange):
            raise ValueError(f"--layer must be finite, got NaN or infinity for {files[some][strange[0]]}.")
        features.append(X)
        shares.append(p)
        progress.advance(some.stop - some.start)
    stored = [p for p in shares if p is not None]
    return np.concatenate(features), np.concatenate(stored) if stored else None
