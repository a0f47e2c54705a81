"""Calibration: of one machine (Platt) and of the coupled model, on samples that were held out."""
