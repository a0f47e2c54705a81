"""The fitted model and what is done with one: fitting, prediction, explanation, changes of classes, growth, saving.

Before it is fitted, C, whitening and calibration are chosen on a part of the training set, the probe.
`FittedModel` never changes: functions here take one and return another. Estimators and runs share all of it.
"""

from pairloom.pipeline.model.choice import Candidate
from pairloom.pipeline.model.class_changes import add_class, remove_class, retrain_pairs
from pairloom.pipeline.model.explaining import explain
from pairloom.pipeline.model.explanation import Explanation
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.fitting import fit_model
from pairloom.pipeline.model.growing_model import grow_fitted_model
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.prediction import predict_probabilities
from pairloom.pipeline.model.saved_model import load_model, save_model

__all__ = [
    "Candidate",
    "Explanation",
    "FittedModel",
    "ModelSettings",
    "add_class",
    "explain",
    "fit_model",
    "grow_fitted_model",
    "load_model",
    "predict_probabilities",
    "remove_class",
    "retrain_pairs",
    "save_model",
]
