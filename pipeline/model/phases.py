"""The phases of a fit, for whoever wants to watch it."""

from __future__ import annotations

from pairloom import graphs

__all__ = ["UNWATCHED", "Phases", "begin_training"]


class Phases:
    """Is told the phases of a fit. This one tells nobody."""

    def begin(self, name: str, total: int, of: str) -> None:
        """Begin a phase of ``total`` pairs, or whatever it counts, and end the one before."""

    def advance(self, done: int) -> None:
        """Count ``done`` more of them. Any thread may call this."""


UNWATCHED = Phases()


def begin_training(phases: Phases, name: str, sides: graphs.Sides, times: int = 1) -> None:
    """Begin a phase that trains the machines of some pairs, or of a code, ``times`` over."""
    if isinstance(sides, graphs.ModelCode):
        phases.begin(name, times * sides.n_machines, "machines")
    else:
        phases.begin(name, times * len(sides), "pairs")
