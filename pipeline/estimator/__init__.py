"""The estimator: `PairwiseSVC`, scikit-learn's interface to the model, and the check of its parameters.

Everything it does is in the rooms before it; a run does the same from a configuration.
"""
