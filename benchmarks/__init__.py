"""Benchmarks: figures against peers, scaling and costs. Ratios are printed with both of their figures."""
