"""The script that begins a run: every worker process that is started for it imports the script again.

That is how multiprocessing starts processes. If the script begins its run whenever it is imported, each worker would
begin the run again instead of working for it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from pairloom.pipeline.config.config import ConfigError

__all__ = ["GUARD_HINT", "check_guarded"]

#: What to write in a script.
GUARD_HINT = (
    'Put the call of pairloom.run, and what follows it, under `if __name__ == "__main__":`. Worker processes import '
    'the script, and must not begin the run again. (cluster.kind = "threads" starts no processes.)'
)
# The name of the script while a worker process imports it.
_IMPORTED = "__mp_main__"


def check_guarded() -> None:
    """Raise `ConfigError` if the script that is running would begin its run again in every worker process.

    A script that tests ``__name__`` is believed. If it does so in vain, its worker processes end here with a hint.
    """
    for frame in _modules_under_way():
        if frame.f_globals.get("__name__") == _IMPORTED:
            raise SystemExit(f"{frame.f_code.co_filename}, line {frame.f_lineno}: {GUARD_HINT}")
        if _is_imported_again(frame) and _is_unguarded(frame.f_code.co_filename):
            raise ConfigError(f"{frame.f_code.co_filename}, line {frame.f_lineno}: {GUARD_HINT}")


def _modules_under_way() -> Iterator[FrameType]:
    """The modules whose code is being executed, innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            yield frame
        frame = frame.f_back


def _is_imported_again(frame: FrameType) -> bool:
    """Whether the code of a module is that of the script. Workers leave out the ``__main__`` of a package."""
    main = sys.modules.get("__main__")
    if main is None or frame.f_globals is not vars(main):
        return False
    name = main.__spec__.name if main.__spec__ is not None else ""
    return name.rpartition(".")[2] != "__main__"


def _is_unguarded(file: str) -> bool:
    """Whether a script never tests its name. What is no script (a console, a notebook) is not imported by workers."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    tests = (node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp))
    return not any(
        isinstance(node, ast.Name) and node.id == "__name__" for test in tests for node in ast.walk(test)
    )
