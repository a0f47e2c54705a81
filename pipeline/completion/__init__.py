"""Completion: the logits of pairs that were not trained, and samples on their way to probabilities.

``complete`` fills in missing pairs and ranks all classes; ``slab`` completes and couples under a memory limit;
``shortlist`` does so for the likeliest classes of each sample only. ``couplers`` has all of it behind one interface,
which machines on sets of classes share.
"""
