"""Commands by name, each imported when it is first looked up: all of them would take seconds."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence

import click

__all__ = ["LazyCommands"]


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a click group. Their names are known, and may be suggested, without importing any.

    Parameters
    ----------
    homes
        Where each command is: "module:attribute", the module relative to this package.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._imported: dict[str, click.Command] = {}

    def load(self, arguments: Sequence[str]) -> None:
        """Import the commands that a command line needs: the one that it names; for the help, all."""
        words = [argument for argument in arguments if not argument.startswith("-")]
        if words:
            self.get(words[0])
        elif "--version" not in arguments:
            for name in self:
                self.get(name)

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            module, _, attribute = self._homes[name].partition(":")
            self._imported[name] = getattr(importlib.import_module(f".{module}", __package__), attribute)
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._homes[name], self._imported[name] = "", command

    def __delitem__(self, name: str) -> None:
        del self._homes[name]
        self._imported.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
