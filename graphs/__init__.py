"""Which pairs of classes to train: model graphs over the classes."""
