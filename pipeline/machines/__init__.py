"""Machines: folds, the SVM solver, whitening, the training of edges, and the logits that machines give."""
