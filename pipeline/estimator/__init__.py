"""The estimator: `PairwiseSVC`, scikit-learn's interface to the model, and the checks of its parameters and input.

The work is done by the packages before this one. A run calls the same functions, with a configuration for parameters.
"""
