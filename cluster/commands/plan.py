"""The command ``pairloom plan``."""

from __future__ import annotations

import json

import click

from pairloom.cluster.commands.options import json_option, set_option
from pairloom.cluster.config_file import load_config
from pairloom.cluster.driver import load_data
from pairloom.cluster.exits import exits
from pairloom.cluster.forecast import forecast_overhead, forecast_seconds, process_seconds
from pairloom.cluster.input_errors import input_errors
from pairloom.cluster.plan import make_plan
from pairloom.cluster.printing import plan_facts, print_facts

__all__ = ["plan_command"]


@click.command("plan")
@click.argument("config")
@set_option
@json_option
def plan_command(config: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the pairs, memory, disk and time of a run.

    CONFIG is a TOML file or the name of a configuration that ships with pairloom. Nothing is written.
    """
    with exits(), input_errors():
        imports = process_seconds()
        settings = load_config(config, overrides)
        data = load_data(settings)
        planned = make_plan(settings, data)
        overhead = forecast_overhead(planned, imports, process_seconds() - imports)
        facts = plan_facts(planned, forecast_seconds(planned, data), overhead)
        if as_json:
            click.echo(json.dumps(facts, indent=1))
        else:
            print_facts(facts)
