"""Machines: folds and parts, the SVM solver, whitening, and the training of the edges of a graph or columns of a code.

There are three kinds (`kinds`): linear SVMs, SVMs with a kernel, and classifiers of scikit-learn. Each trains itself,
and its trained machines have the same methods, so that other rooms do not ask which kind they have.

A decision value becomes a logit by Platt's sigmoid or as a distance to the hyperplane, unless it is log odds already.
`train_edges`, or for sets of classes `train_columns`, is the unit of work of threads and of the cluster alike;
`collapse` makes one affine map of its machines. `train_kernel_edges` is the same for machines with a kernel.
"""
