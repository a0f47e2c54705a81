"""Features: reading, checking and fingerprinting samples, and the distances between classes.

The first step of the pipeline. A run takes its samples as `OpenFeatures`, which may be larger than memory;
`FeatureSet` holds samples in memory. `embedded_sets` has the sets that need no file.
"""
