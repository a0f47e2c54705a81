"""Where and when a run is computed: configuration, plan, stages, Dask, ledger, and the command line."""
