"""Completion: the logits of pairs that were not trained, and from there to probabilities.

`complete` fills in missing pairs and ranks all classes; `slab` completes and couples under a memory limit; `shortlist`
does so for the likeliest classes of each sample only. `couplers` puts all of this behind one interface, which machines
on sets of classes share. `laplacian` solves for the potentials of a graph.
"""
