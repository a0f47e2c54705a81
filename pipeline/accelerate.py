"""The one way in which Pairloom compiles a kernel.

Kernels are serial and release the GIL: whoever calls them (a thread pool, a Dask worker) decides what runs at
once. They are cached on disk, so that a worker does not compile again what its neighbour has compiled.
"""

from functools import partial

from numba import njit

#: Reductions may be reordered and products fused, which is what lets a sum use SIMD (a dot product of 200 floats:
#: 4 times faster). Nothing that would let the compiler assume that NaN or infinity cannot occur.
SIMD = frozenset({"contract", "reassoc"})

# Division by zero gives inf or NaN, as numpy's does: a check that raises would keep every loop with a `/` from SIMD.
kernel = partial(njit, nogil=True, cache=True, error_model="numpy")
simd_kernel = partial(kernel, fastmath=set(SIMD))
inline_kernel = partial(njit, nogil=True, error_model="numpy", inline="always", fastmath=set(SIMD))
