"""Completion: the logits of pairs that were not trained, and slabs of samples on their way to coupling."""
