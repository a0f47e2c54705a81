"""``python -m pairloom`` is the command ``pairloom``."""

from pairloom.cluster.cli import main

main(prog_name="pairloom")
