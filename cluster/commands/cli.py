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
        Where each command is: "module:attribute", the module relative to this package.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._imported: dict[str, click.Command] = {}

    def load(self, arguments: Sequence[str]) -> None:
        """Import the command that a command line names; if it asks for help, all of them."""
        words = [argument for argument in arguments if not argument.startswith("-")]
        if words:
            self.get(words[0])
        elif "--version" not in arguments:
            for name in self:
                self.get(name)

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


COMMANDS = LazyCommands(
    {
        "attach": "follow:attach_command",
        "bench": "bench:bench",
        "cancel": "follow:cancel_command",
        "compare": "results:compare_command",
        "config": "config:config_command",
        "experiment": "experiment:experiment_command",
        "features": "features:features_command",
        "init": "config:init_command",
        "ls": "results:list_command",
        "plan": "run:plan_command",
        "predict": "results:predict_command",
        "report": "results:report_command",
        "resume": "run:resume_command",
        "run": "run:run_command",
        "simulate": "simulate:simulate_command",
        "status": "follow:status_command",
        "submit": "run:submit_command",
    }
)


class PipedGroup(click.Group):
    """Commands, and their help, whose output may be closed early by its reader."""

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        """Parse the arguments; ``--help`` prints here."""
        with closed_pipe_is_no_error():
            return super().make_context(*arguments, **keywords)

    def invoke(self, context: click.Context) -> Any:
        """Call the command."""
        with closed_pipe_is_no_error():
            return super().invoke(context)


@click.group(
    cls=PipedGroup,
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
