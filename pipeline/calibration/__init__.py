"""Calibration of the coupled model, on training samples scored by machines and parameters that they had no part in.

``drawn_samples`` draws them, ``held_out`` has their out-of-fold logits and log loss. ``scale`` chooses one scale for
the model, ``coupled_calibration`` also a slope and a shift per machine. ``coupled_learning`` learns the weights of all
machines through the coupling, with ``shortlist_gradient``.
"""
