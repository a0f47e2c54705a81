"""The fitted model and what is done with one: fitting, prediction, explanation, changes of classes, growth, saving.

Before it is fitted, C, whitening and calibration are chosen on a part of the training set, the probe.
`FittedModel` never changes: functions here take one and return another. Estimators and runs share all of it.
"""
