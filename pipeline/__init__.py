"""The processing of data, one room per step.

features -> images -> machines -> coupling -> completion -> calibration -> growth -> display -> model -> config ->
run -> estimator -> report -> stages -> experiments

A room imports only rooms before it, and `storage`. None of them knows Dask.

Shapes, in every docstring:

=====  =========================================================
N      classes
E      trained pairs: the edges of the model graph
M      machines per edge: one per fold, or one more
D      features
R      samples to predict
K      folds
k      classes of a shortlist
=====  =========================================================

Edge logits are (E, R), the tensor of all pairs (N, N, R), blocks of shortlists (k, k, R), probabilities (R, N). Classes
are counted from 0, and an edge (i, j) has i < j; its logit is log(p_i / p_j). A training sample lies in one fold of its
class, and in one part of that fold. It is scored by machines that were not fitted on the fold, with parameters that
were estimated without the part.
"""
