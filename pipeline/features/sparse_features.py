"""Sparse features: one canonical CSR form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["canonical_csr"]


def canonical_csr(X: Any) -> sparse.csr_array:
    """Samples as CSR with ascending columns, without duplicates or stored zeros; X is not changed.

    X may be dense or sparse in any format. Equal samples have equal arrays, whatever form they came in.
    """
    rows = sparse.csr_array(X)
    if not rows.has_canonical_format or (rows.data == 0).any():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    if rows.indices.dtype != np.int32 and max(rows.shape[1], rows.nnz) < 2**31:
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows
