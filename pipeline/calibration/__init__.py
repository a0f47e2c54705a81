"""Calibration of the coupled model, on training samples scored by machines and parameters that they had no part in.

Which samples, their out-of-fold logits, the log loss, one scale for the model with its prior, every edge's slope and
shift; gradients through every coupling, and the weights of all machines learned through it.
"""

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, calibrate_coupled
from pairloom.pipeline.calibration.drawn_samples import draw_samples
from pairloom.pipeline.calibration.held_out import HeldOut
from pairloom.pipeline.calibration.log_loss import log_losses, mean_log_loss
from pairloom.pipeline.calibration.out_of_fold import out_of_fold_edge_logits
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale

__all__ = [
    "CoupledCalibration",
    "HeldOut",
    "ScaleChoice",
    "calibrate_coupled",
    "choose_scale",
    "draw_samples",
    "log_losses",
    "mean_log_loss",
    "out_of_fold_edge_logits",
]
