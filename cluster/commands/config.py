"""``pairloom config``: every key with default and meaning, the JSON Schema, or a configuration that is shipped."""

from __future__ import annotations

import json

import click

from pairloom.cluster.config import ConfigError
from pairloom.cluster.config_file import named_configs
from pairloom.cluster.config_page import config_schema, config_text
from pairloom.cluster.exits import exits
from pairloom.graphs.labels import did_you_mean

__all__ = ["config_command"]


@click.command("config")
@click.argument("name", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a configuration.")
def config_command(name: str | None, schema: bool) -> None:
    """Print every key of a configuration, with its default and its meaning.

    With NAME, print the configuration of that name that ships with pairloom. The output is TOML in both cases.
    """
    with exits():
        if schema and name is not None:
            raise click.UsageError("--schema is of all configurations: leave NAME out.")
        if schema:
            click.echo(json.dumps(config_schema(), indent=1))
        elif name is None:
            click.echo(config_text(), nl=False)
        else:
            click.echo(_shipped(name), nl=False)


def _shipped(name: str) -> str:
    known = named_configs()
    if name not in known:
        raise ConfigError(
            f"NAME must be a configuration that ships with pairloom, got {name!r}.{did_you_mean(name, known)}"
            f" Names: {', '.join(known)}."
        )
    return known[name].read_text(encoding="utf-8")
