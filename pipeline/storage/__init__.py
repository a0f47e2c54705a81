"""Storage: files that are whole or absent, and how a zarr group lies on disk."""
