"""Display: tables for a terminal and for a notebook, and figures in the form of scikit-learn's Display classes.

What is drawn are plain arrays, graphs and names. An estimator is asked for no more than scikit-learn's interface.
"""

from pairloom.pipeline.display.confusion_display import ConfusionDisplay
from pairloom.pipeline.display.graph_display import GraphDisplay
from pairloom.pipeline.display.reliability_display import ReliabilityDisplay

__all__ = ["ConfusionDisplay", "GraphDisplay", "ReliabilityDisplay"]
