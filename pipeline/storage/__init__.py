"""Storage: atomic files, digests, and the layout of zarr groups on disk.

Everything that a run or a saved model writes passes through here. Nothing here depends on classes or machines.
"""
