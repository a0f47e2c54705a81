"""The experiments of the main paper, one file each, and the page that gathers their results.

Every model is a part of one trained tensor, so no experiment trains anything but that. `encodings` alone is of another
paper and simulates its machines.
"""
