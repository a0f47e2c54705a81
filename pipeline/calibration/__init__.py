"""Calibration of the coupled model, on training samples scored by machines and parameters that they had no part in.

`held_out` draws these samples and computes their out-of-fold logits and log loss; `out_of_fold_lists` scores them by
shortlists alone. `scale` chooses one scale for the model, `list_mass` the probability of the shortlist against the
rest, and `coupled_calibration` also a slope and a shift per machine. `coupled_learning` learns the weights of all
machines through the coupling, with `shortlist_gradient`. `held_out_scores` and `novelty_signals` keep the scores of the
held-out samples, for prediction sets and rejection.
"""
