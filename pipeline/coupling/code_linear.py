"""Linear decoding: the class whose row agrees best with the machines, as probabilities by a softmax."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.normal import softmax
from pairloom.pipeline.coupling.stored_code import StoredCode
from pairloom.pipeline.coupling.tensor_kernels import product_by_sample


def solve(
    logits: NDArray[np.floating],
    code: StoredCode,
    weights: NDArray[np.float64],
    barrier: float,
    tol: float,
    start: int,
    stop: int,
    p: NDArray[np.floating],
    iterations: NDArray[np.int64],
    residual: NDArray[np.float64],
) -> None:
    r"""Write the `linear` probabilities of the samples in [start, stop) [I 2.2, 2.3]_:

    .. math:: u_k = \tfrac12 \sum_q M_{kq} L_q, \qquad p_k = e^{u_k} / \sum_j e^{u_j}

    The factor 1/2 makes p_k proportional to the product, over the machines, of the probability that the machine gives
    to the side of class k (the geometric mean of both sides where it leaves k out), as if the machines erred
    independently. They do not, so the probabilities are too near to 0 and 1, the more so the more machines there are.

    Choose it for speed, when the order of the classes is enough, or with logits scaled on held-out samples. For one
    machine per pair, ``2 / N`` times the logits makes it `normal`.

    References
    ----------
    .. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation".
       Journal of Physics: Conference Series 233, 012006. https://ikeda46.github.io/posts/2010.03.ikeda.iop/
    """
    u = np.empty((len(code.matrix), stop - start))
    product_by_sample(code.matrix / 2, logits[:, start:stop], u)
    p[start:stop] = softmax(u.T)
    iterations[start:stop], residual[start:stop] = 1, 0.0
