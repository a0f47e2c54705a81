"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from pairloom.cluster.config.config_file import named_configs, with_cluster, with_section
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.storage.location import (
    URL_ADVICE,
    BadUrl,
    location_of,
    looks_like_url,
    without_credentials,
)

__all__ = [
    "DataLocation",
    "LocalPath",
    "RunLocation",
    "cluster_options",
    "config_argument",
    "directory_option",
    "json_option",
    "local_path",
    "run_argument",
    "set_option",
    "update_option",
    "with_cluster_options",
]


class LocalPath(click.Path):
    """A path that does not look like a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if looks_like_url(value):
            shown = without_credentials(str(value))
            self.fail(f"must be a path, not a URL, got {shown!r}. {URL_ADVICE}", param, ctx)
        return super().convert(value, param, ctx)


class RunLocation(LocalPath):
    """The path of a folder, or the URL of one in an object store."""

    called = "DIRECTORY"  # in errors

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not looks_like_url(value):
            return super().convert(value, param, ctx)
        try:
            place = location_of(str(value), self.called)
        except BadUrl as error:
            self.fail(str(error), param, ctx)
        return super(LocalPath, self).convert(place, param, ctx) if isinstance(place, Path) else place


class DataLocation(RunLocation):
    """The path of samples, or the URL of a zarr group in an object store."""

    called = "--features"


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Combine click options into one decorator."""
    return lambda command: functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(options), command
    )


local_path = LocalPath(path_type=Path)
run_argument = click.argument("directory", type=RunLocation(path_type=Path, exists=True, file_okay=False))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
set_option = click.option(
    "--set",
    "overrides",
    metavar="SECTION.KEY=VALUE",
    multiple=True,
    help="Override a key of the configuration. May be repeated.",
)


def _config_names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Completions for a shell: names of configurations that begin with the typed text, and files."""
    names = [CompletionItem(name) for name in named_configs() if name.startswith(typed)]
    return [CompletionItem(typed, type="file"), *names]


config_argument = _options(click.argument("config", shell_complete=_config_names), set_option)
directory_option = click.option(
    "--directory",
    type=RunLocation(path_type=Path),
    help="Run directory: a path, or a URL such as s3://bucket/run. Default: runs/ and the name of the configuration.",
)
update_option = click.option(
    "--update",
    is_flag=True,
    help="Accept changed settings or data, and recompute the stages that depend on them.",
)
cluster_options = _options(
    click.option("--scheduler", metavar="ADDRESS", help="Address of a Dask scheduler, tcp:// or tls://."),
    click.option(
        "--scheduler-file", type=str, metavar="FILE", help="Scheduler file written by a Dask scheduler."
    ),
    click.option("--tls-ca-file", type=str, metavar="FILE", help="Certificate of the authority (PEM)."),
    click.option("--tls-cert", type=str, metavar="FILE", help="Certificate of this client (PEM)."),
    click.option("--tls-key", type=str, metavar="FILE", help="Private key of this client (PEM)."),
    click.option("--insecure", is_flag=True, help="Allow a scheduler off loopback without TLS."),
    click.option(
        "--local", is_flag=True, help="Start workers on this computer, whatever the configuration says."
    ),
    click.option(
        "--workers", type=click.IntRange(1), metavar="N", help="Number of workers to start on this computer."
    ),
)


def with_cluster_options(settings: Config, options: dict[str, Any]) -> Config:
    """The configuration with the cluster that the options name."""
    names = ("scheduler", "scheduler_file", "tls_ca_file", "tls_cert", "tls_key", "workers")
    given = {name: options[name] for name in names if options[name] is not None}
    given |= {"insecure": True} if options["insecure"] else {}
    if options["local"]:
        return with_cluster(settings, {"kind": "processes", **given})
    if given.keys() & {"scheduler", "scheduler_file"}:
        return with_cluster(settings, {"kind": "scheduler", **given})
    return with_section(settings, "cluster", given)
