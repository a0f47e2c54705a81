"""What happens to the data, one room per step of its way.

features -> machines -> completion -> coupling -> calibration -> growth -> model -> run, estimator -> report

A room imports only rooms to its left (completion also imports coupling) and `storage`. None of them knows Dask.
Shapes, in every docstring:

=====  =========================================================
N      classes
E      trained pairs: the edges of the model graph
M      machines per edge: one per fold, or one more
D      features
R      samples to predict
K      folds
=====  =========================================================

Edge logits are (E, R), the tensor of all pairs (N, N, R), probabilities (R, N). Classes are counted from 0, and an edge
(i, j) has i < j; its logit is log(p_i / p_j).
"""
