"""Machines: folds and parts, the SVM solver, whitening, and the training of the edges of a graph or columns of a code.

There are three kinds (`kinds`): linear SVMs, SVMs with a kernel, and classifiers of scikit-learn. Each kind knows how
to train, and trained machines of all kinds have the same methods for calibration, prediction and explanation.

A decision value becomes a logit by Platt's sigmoid or as a distance to the hyperplane, unless it is log odds already.
Threads and cluster tasks both call `train_tile`, or `train_kernel_tile` for machines with a kernel. `collapse` turns
the machines of an edge into one affine map.
"""
