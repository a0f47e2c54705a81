"""Connecting to a Dask cluster: one started here, a running scheduler, or jobs of a batch system."""
