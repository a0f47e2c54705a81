"""The experiments of the main paper, one file each, and the page that gathers their results.

Every model is a part of one trained tensor, so no experiment trains anything but that. `encodings` and `curved` are
of other papers: one simulates its machines, the other draws its data.
"""
