"""The fitted model and all operations on it: fitting, prediction, explanation, changes of classes, growth, saving.

C and whitening are chosen beforehand on a part of the training set, the probe. `FittedModel` is immutable: functions
here take one and return another. Estimators and runs share all of it.
"""
