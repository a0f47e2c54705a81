"""The experiments of the main paper and of others, and the page that collects their results.

Every model in the experiments of the main paper is a part of one trained tensor, so they train nothing else, except
`elementwise`. Of the experiments from other papers, `simulated_encodings` simulates machines, `mixtures`, `gaussians`
and `curved` simulate training samples, and `encodings` and `many_classes` train on tables.
"""
