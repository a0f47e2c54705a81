"""The command ``pairloom``, which is also ``python -m pairloom``.

Its imports take seconds. So it says within a second that it has been started, and Ctrl-C ends it quietly even then.
"""

import sys

from pairloom.cluster.start_line import start_line


def main() -> None:
    """Import the command line and call it."""
    try:
        with start_line(sys.argv[1:], sys.stderr):
            from pairloom.cluster.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    command(prog_name="pairloom")


if __name__ == "__main__":
    main()
