"""The command ``pairloom features``."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pairloom.cluster.commands.exits import ended_by_signals, exits, stderr
from pairloom.cluster.commands.options import LocalPath, json_option, local_path
from pairloom.cluster.connect.connect import install_hint
from pairloom.cluster.watch.picture_progress import PictureProgress
from pairloom.graphs.text import printable
from pairloom.pipeline.config.config import ConfigError, InputError
from pairloom.pipeline.images.image_folder import StoreRefused

__all__ = ["features_command"]

_NEEDED = ("onnx", "onnxruntime", "PIL")
_INTERPOLATIONS = ("bilinear", "bicubic", "lanczos", "box", "nearest")
_PREPROCESSING = ("resize", "crop", "mean", "std", "pixel_range", "channel_order", "interpolation")


class _Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        try:
            return [float(part) for part in value.split(",")] if isinstance(value, str) else value
        except ValueError:
            self.fail(f"must be numbers separated by commas, got {value!r}.", param, ctx)


@click.command("features")
@click.argument("images", type=LocalPath(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--model",
    required=True,
    type=LocalPath(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The network, an ONNX file.",
)
@click.option("--out", required=True, type=local_path, metavar="STORE", help="Zarr store to write.")
@click.option(
    "--layer",
    metavar="NAME",
    help="Activations to take as features, or the operation that makes them. Default: the input of the last matrix "
    "product.",
)
@click.option(
    "--classes",
    metavar="imagenet50|FILE",
    help="Take these classes only: the fifty of ImageNet-50, or a text file with a folder per line and, after a space, "
    "the name of the class.",
)
@click.option(
    "--augment",
    type=click.IntRange(1),
    metavar="N",
    help="Fill every training class up to N rows with augmented copies: crops, flips, colours.",
)
@click.option(
    "--test-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Share of the pictures of every class to set apart for tests, if the folder has no train/ and val/.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", help="Seed of copies and split. Default: 0."
)
@click.option(
    "--broken",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    help="What to do if pictures cannot be read. Default: fail, and name them.",
)
@click.option(
    "--resize", type=click.IntRange(1), metavar="N", help="Pixels of the shorter side. Default: crop / 0.875."
)
@click.option(
    "--crop",
    type=click.IntRange(1),
    metavar="N",
    help="Pixels of the centre crop. Default: what the network takes.",
)
@click.option(
    "--mean", type=_Numbers(), metavar="R,G,B", help="Subtracted from the pixels. Default: by the metadata."
)
@click.option("--std", type=_Numbers(), metavar="R,G,B", help="Then divided by. Default: by the metadata.")
@click.option(
    "--pixel-range",
    type=click.Choice(["1", "255"]),
    help="Scale of --mean and --std: pixels from 0 to 1 or to 255. Default: 1.",
)
@click.option(
    "--channel-order", type=click.Choice(["rgb", "bgr"]), help="Order of the colours. Default: rgb."
)
@click.option("--interpolation", type=click.Choice(_INTERPOLATIONS), help="How to resize. Default: bilinear.")
@click.option(
    "--layout",
    type=click.Choice(["nchw", "nhwc"]),
    help="Axes of the network's input. Default: by its shape.",
)
@click.option(
    "--outputs",
    metavar="folders|FILE",
    help="Names of the network's outputs, in their order: a text file with one per line (WordNet id or name), or "
    '"folders" if it was trained on these folders. Then its own accuracy is shown.',
)
@click.option("--no-probabilities", is_flag=True, help="Do not store the network's own probabilities.")
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=32,
    metavar="N",
    help="Pictures per batch of the network. Default: 32.",
)
@click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="Number of threads. Default: one per CPU."
)
@click.option(
    "--provider",
    default="CPUExecutionProvider",
    metavar="NAME",
    help="Execution provider of onnxruntime, such as CUDAExecutionProvider. Default: CPUExecutionProvider.",
)
@json_option
def features_command(images: Path, model: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Extract the features of the pictures in the folder IMAGES with a network.

    IMAGES has a folder per class, or train/ and val/ with a folder per class in each. The store can be used as
    `features` in the section [data] of a configuration. If the command is stopped, run it again to continue.
    """
    with exits(), ended_by_signals("Finished blocks are kept. Run the same command again to continue."):
        _check_extra()
        # onnx and onnxruntime are optional, and take a second to import.
        from pairloom.pipeline.images.extraction import ExtractionOptions, extract_features

        given = {name: options.pop(name) for name in _PREPROCESSING}
        chosen = ExtractionOptions(
            skip_broken=options.pop("broken") == "skip",
            probabilities=not options.pop("no_probabilities"),
            threads=options.pop("threads") or os.cpu_count() or 1,
            preprocessing=given,
            **options,
        )
        with _input_errors(), PictureProgress(stderr) as progress:
            done = extract_features(images, model, out, chosen, progress)
        if as_json:
            click.echo(json.dumps(done._asdict(), indent=1))
        else:
            _print_summary(done)


@contextlib.contextmanager
def _input_errors() -> Iterator[None]:
    """Turn errors about bad arguments, pictures or networks into an `InputError`; a full disk is a different error."""
    try:
        yield
    except StoreRefused:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def _check_extra() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"pairloom features needs {' and '.join(missing)}. {install_hint('images')}")


def _print_summary(done: Any) -> None:
    names = {"train": "training rows", "test": "test rows", "pool": "rows"}
    copies = {"train": f" ({done.copies} of them augmented copies)" if done.copies else ""}
    rows = ", ".join(f"{n} {names[part]}{copies.get(part, '')}" for part, n in done.rows.items())
    lines = [
        f"{'Complete already' if done.was_finished else 'Wrote'}: {done.out}",
        f"{done.classes} classes, {rows}, {done.features} features",
        f"layer: {done.layer}"
        + (f", averaged over {' x '.join(map(str, done.positions))} positions" if done.positions else ""),
    ]
    if done.outputs:
        kind = "softmax of its output" if done.softmax else "its output, which adds up to one:"
        lines.append(f"probabilities of the network: {done.outputs}, {kind} {done.output}")
    if done.broken:
        lines.append(f"skipped {len(done.broken)} broken pictures")
    if done.network_accuracy is not None:
        part = "test pictures" if "test" in done.rows else "pictures"
        lines.append(
            f"accuracy of the network itself, among these classes, on the {part}: {done.network_accuracy:.4f}"
        )
    lines.append(f'Use it in a configuration: [data] features = "{done.out}"')
    click.echo(printable("\n".join(lines)))
