from pairloom.pipeline.display.displays import ConfusionDisplay as ConfusionDisplay
from pairloom.pipeline.display.displays import GraphDisplay as GraphDisplay
from pairloom.pipeline.display.displays import ReliabilityDisplay as ReliabilityDisplay
