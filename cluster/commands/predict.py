"""The command ``pairloom predict``."""

from __future__ import annotations

from pathlib import Path

import click

from pairloom.cluster.commands.options import LocalPath, local_path, run_argument
from pairloom.cluster.exits import exits
from pairloom.cluster.input_errors import input_errors
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.features.feature_set import load_samples
from pairloom.pipeline.run.probability_files import check_target, write_probabilities

__all__ = ["predict_command"]


@click.command("predict")
@run_argument
@click.option(
    "--features",
    type=LocalPath(),
    metavar="PATH",
    required=True,
    help="Samples X: .npz file, zarr group, folder of .npy files, or a table with the columns of the training data.",
)
@click.option(
    "--out",
    required=True,
    type=local_path,
    help="File to write, with the predicted label of each sample and the probabilities: .npz, .csv or .zarr.",
)
@click.option("--coupling", metavar="NAME", help="One of the couplings of the run. Default: model.coupling.")
@click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
def predict_command(directory: Path, features: str, out: Path, coupling: str | None, force: bool) -> None:
    """Predict new samples with the run in DIRECTORY.

    Writes the predicted label and the probabilities of all classes for each sample. Of a table, columns are found by
    their names; others are not read.
    """
    with exits():
        with input_errors():
            check_target(out, force=force, samples=features)
        model = PairwiseSVC.from_run(directory, coupling=coupling)
        with input_errors():
            names = getattr(model, "feature_names_in_", None)
            X = load_samples(features, model.n_features_in_, None if names is None else names.tolist())
            if names is not None:
                del model.feature_names_in_  # columns were found by them; an array has none to compare
            p = model.predict_proba(X)
        write_probabilities(out, p, model.classes_.tolist(), force=force)
        click.echo(f"Wrote the labels and probabilities of {len(X)} samples, by {model.coupling}, to {out}")
