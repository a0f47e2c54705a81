"""Where and when it happens: the Dask side."""
