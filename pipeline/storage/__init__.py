"""Storage: folders on disk and in object stores, atomic files, digests, and the layout of zarr groups.

All files of a run directory are read and written through `folder.Folder`, and saved models in a store too. Nothing here
depends on classes or machines.
"""
