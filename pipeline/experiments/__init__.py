"""The experiments of the main paper [S]. Each set has one trained tensor; every smaller model is a mask over it."""
