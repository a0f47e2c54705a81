"""Features: where samples come from, how they are checked and recognised, and how far apart the classes are.

The first step of the pipeline. `OpenFeatures` is the form in which a run takes its samples, which may be more than
memory holds; `FeatureSet` holds them. `embedded_sets` needs no file.
"""
