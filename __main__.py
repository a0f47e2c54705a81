"""The command ``pairloom``, which is also ``python -m pairloom``.

Its imports take seconds. So it says within a second that it has been started, and Ctrl-C ends it quietly even then.
"""

import os
import sys

from pairloom.cluster.commands.streams import exit_interrupted, start_line

# Set by a shell that completes a word, which shows nothing but its completions.
_COMPLETION = "_PAIRLOOM_COMPLETE"


def main() -> None:
    """Import the command that is called, and call it."""
    if _COMPLETION not in os.environ:
        _load(sys.argv[1:])
    from pairloom.cluster.commands.cli import main as command

    command(prog_name="pairloom")


def _load(arguments: list[str]) -> None:
    """Import the command line, with what these arguments need of it."""
    try:
        with start_line(arguments, sys.stderr):
            from pairloom.cluster.commands.cli import COMMANDS

            COMMANDS.load(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        exit_interrupted(130)


if __name__ == "__main__":
    main()
