"""The one way in which this package compiles a kernel."""

from functools import partial

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Kernels are serial and release the GIL: the executor decides what runs in parallel, never a kernel.
# Division as numpy does it (x / 0 is inf): a check that raises would keep a loop from being vectorised.
kernel = partial(njit, nogil=True, cache=True, error_model="numpy")

# Sums become SIMD only if they may be reordered. These flags leave NaN and infinities alone; fastmath=True does not.
SIMD = {"reassoc", "contract"}
simd_kernel = partial(kernel, fastmath=SIMD)
inline_kernel = partial(njit, nogil=True, error_model="numpy", inline="always", fastmath=SIMD)

# Maxima need more: a NaN must not reach a kernel that is compiled with these.
REORDERED = SIMD | {"nnan", "nsz"}


@intrinsic
def maximum(typing_context, a, b):
    """max(a, b) of two floats of one type, not NaN, in the form that LLVM vectorises as a reduction.

    Numba's own max() does not carry the flags of REORDERED to the comparison: to choose a partner among 400
    rows (`svm_kernels.best_partner`) takes 535 ns with it and 100 ns with this.
    """
    if a != b or not isinstance(a, types.Float):
        return None

    def generate(context, builder, signature, arguments):
        real = arguments[0].type
        function = builder.module.declare_intrinsic(
            "llvm.maxnum", [real], ir.FunctionType(real, [real, real])
        )
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return a(a, a), generate
