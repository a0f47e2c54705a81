"""Storage: files that are whole or absent, digests, and how a zarr group lies on disk.

Knows nothing of classes or machines. Everything that a run or a saved model writes passes through here.
"""

from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.digests import digest_of, file_digest, sealed, unsealed
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["digest_of", "file_digest", "read_whole", "sealed", "unsealed", "write_atomically"]
