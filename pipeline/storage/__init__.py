"""Storage: atomic files, digests, and the layout of zarr groups on disk.

Everything that a run or a saved model writes passes through here. Nothing here depends on classes or machines.
"""

from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.digests import digest_of, file_digest, sealed, unsealed
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["digest_of", "file_digest", "read_whole", "sealed", "unsealed", "write_atomically"]
