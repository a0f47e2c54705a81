"""The experiments of the main paper, and the page that gathers their results.

Every model is a part of one trained tensor, so the experiments train nothing else. Those of other papers simulate:
`simulated_encodings` its machines, `mixtures`, `gaussians` and `curved` the samples that theirs are trained on. Only
`encodings` trains on tables of its own.
"""
