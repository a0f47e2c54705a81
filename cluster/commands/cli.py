"""The command line ``pairloom``: the table of its commands, each imported only when it is called."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import click

import pairloom
from pairloom.cluster.commands.streams import closed_pipe_is_no_error

__all__ = ["COMMANDS", "LazyCommands", "main"]


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a click group. Their names are known, and can be suggested, without importing any.

    Parameters
    ----------
    places
        "module:attribute" of each command, the module relative to this package.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._imported: dict[str, click.Command] = {}

    def load(self, arguments: Sequence[str]) -> None:
        """Import the command that a command line names. Listing the commands imports none of them."""
        words = [argument for argument in arguments if not argument.startswith("-")]
        if words:
            self.get(words[0])

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            module, _, attribute = self._places[name].partition(":")
            self._imported[name] = getattr(importlib.import_module(f".{module}", __package__), attribute)
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name], self._imported[name] = "", command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._imported.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


#: The commands in groups by task: the place of each, and its line in ``--help``.
GROUPS = {
    "Start": {
        "init": ("config:init_command", "Look at DATA and write a configuration for it."),
        "config": ("config:config_command", "Print every key of a configuration."),
        "features": ("features:features_command", "Extract features of pictures with a network."),
        "data": ("data:data_command", "Make a data set of the documentation."),
    },
    "Run": {
        "plan": ("run:plan_command", "Show the pairs, memory, disk and time of a run."),
        "run": ("run:run_command", "Plan and run CONFIG, or resume it."),
        "resume": ("run:resume_command", "Finish the run in DIRECTORY."),
        "submit": ("run:submit_command", "Start a run of CONFIG on a cluster and return."),
        "attach": ("follow:attach_command", "Follow the run in DIRECTORY until its driver ends."),
        "cancel": ("follow:cancel_command", "Stop the driver of the run in DIRECTORY."),
    },
    "Look": {
        "status": ("follow:status_command", "Show the progress of the run in DIRECTORY."),
        "predict": ("results:predict_command", "Predict new samples with the run in DIRECTORY."),
        "report": ("results:report_command", "Rewrite the report of a finished run."),
        "audit": ("results:audit_command", "List the training rows whose labels look wrong."),
        "ls": ("results:list_command", "List runs: state, scores, size and age."),
        "compare": ("results:compare_command", "Show the scores of runs side by side."),
    },
    "Measure": {
        "bench": ("bench:bench", "Measure pairloom on this computer."),
        "simulate": ("simulate:simulate_command", "Forecast a run on a cluster that need not exist."),
        "experiment": ("experiment:experiment_command", "Repeat an experiment of the papers."),
    },
}
COMMANDS = LazyCommands({name: place for group in GROUPS.values() for name, (place, _) in group.items()})


class PipedGroup(click.Group):
    """A click group with its help in groups, and commands whose reader may close the pipe early."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups. The texts are in the table, so that no command is imported."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in group.items()])

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        """Parse the arguments; ``--help`` prints here."""
        with closed_pipe_is_no_error():
            return super().make_context(*arguments, **keywords)

    def invoke(self, context: click.Context) -> Any:
        """Call the command."""
        with closed_pipe_is_no_error():
            return super().invoke(context)


_EXIT_CODES = """\b
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


@click.group(
    cls=PipedGroup,
    commands=COMMANDS,
    epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(pairloom.__version__, prog_name="pairloom")
def main() -> None:
    """Multi-class classification by pairs: train, resume and use runs.

    Start with `pairloom init DATA`, which looks at a table and writes a configuration for it, or with `pairloom run
    digits`, which needs no data.
    """
    # Dask logs every lost connection with a traceback. The commands report it in one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
