"""Sums over training rows, row after row: the same bits however the rows are cut into pieces."""

from pairloom.pipeline.accelerate import kernel


@kernel
def add_rows(X, y, unit, count, total, squares, lowest, highest, class_totals):
    """Add rows X (n, D) of classes y, multiplied by ``unit``, to the sums over the ``count`` rows before them.

    ``squares`` are the squared deviations from the mean, by Welford's recurrence: with m the mean up to a row x and m'
    the mean before it, they grow by (x - m') (x - m). ``lowest`` and ``highest`` are of the rows as they came.
    """
    for i in range(X.shape[0]):
        row, of_class = X[i], class_totals[y[i]]
        # The first row has no mean before it: with total = 0 its second factor is 0, whatever the first is.
        before, after = 1.0 / max(1, count + i), 1.0 / (count + i + 1)
        for d in range(X.shape[1]):
            x = unit * row[d]
            mean_before = total[d] * before
            total[d] += x
            squares[d] += (x - mean_before) * (x - total[d] * after)
            of_class[d] += x
            lowest[d] = min(lowest[d], row[d])
            highest[d] = max(highest[d], row[d])
