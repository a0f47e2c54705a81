"""The estimator: PairwiseSVC, the fitted model behind it, its changes and its saved form."""
