"""The command line: ``pairloom run CONFIG`` and the commands for runs that exist, which are in ``commands/``.

They use everything else, so they are in the room that may import the other two.
"""

from __future__ import annotations

import logging

import click

import pairloom
from pairloom.cluster.closed_pipe import QuietGroup
from pairloom.cluster.commands.lazy_commands import LazyCommands

__all__ = ["COMMANDS", "main"]

COMMANDS = LazyCommands(
    {
        "attach": "attach:attach_command",
        "bench": "bench:bench",
        "cancel": "cancel:cancel_command",
        "compare": "compare:compare_command",
        "config": "config:config_command",
        "experiment": "experiment:experiment_command",
        "features": "features:features_command",
        "init": "init:init_command",
        "ls": "ls:list_command",
        "plan": "plan:plan_command",
        "predict": "predict:predict_command",
        "report": "report:report_command",
        "resume": "run:resume_command",
        "run": "run:run_command",
        "simulate": "simulate:simulate_command",
        "status": "status:status_command",
        "submit": "submit:submit_command",
    }
)


@click.group(
    cls=QuietGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(pairloom.__version__, prog_name="pairloom")
def main() -> None:
    """Multi-class classification by pairs: train, resume and use runs.

    \b
    Exit codes:
      0    done
      1    failed
      2    invalid arguments, configuration or data
      3    refused: another driver is at work, the configuration, data or version
           differ, the directory holds other files, a file is in the way, or the
           network is open
      4    stopped; can be resumed
      130  stopped by Ctrl-C; can be resumed
      143  stopped by SIGTERM; can be resumed
    """
    # Dask logs every lost connection at length. The commands report it in one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
