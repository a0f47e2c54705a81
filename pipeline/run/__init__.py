"""Runs: the plan, the run directory with its ledger, lock and log, and the model of a finished run.

The stages, which do the work, are in `pipeline.stages`. The modules here read and write their arrays.
"""
