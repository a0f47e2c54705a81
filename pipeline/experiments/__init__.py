"""The experiments of the main paper [S]: one trained tensor of a set, and every smaller model a mask over it."""
