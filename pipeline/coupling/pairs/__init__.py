"""Coupling of machines on pairs of classes: `couple`, and one solver per method with its kernels beside it."""
