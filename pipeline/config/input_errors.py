"""Data and arguments that cannot be used: errors of the user's input, which commands end with their own exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pairloom.pipeline.config.config import ConfigError

__all__ = ["InputError", "InputMissing", "OutputExists", "input_errors"]


class InputError(ValueError):
    """Data, or an argument, that cannot be used."""


class InputMissing(InputError, FileNotFoundError):
    """A file that is not there."""

    def __str__(self) -> str:
        return str(self.args[0])  # not as an OSError of one argument would


class OutputExists(FileExistsError):
    """A file that would have to be replaced."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Turn what is raised for bad data into an `InputError`, so that it is told from a failure of the program."""
    try:
        yield
    except (ConfigError, InputError, BrokenPipeError):  # output that nobody reads is no input
        raise
    except FileExistsError as error:
        raise OutputExists(str(error)) from error
    except FileNotFoundError as error:
        raise InputMissing(str(error)) from error
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
