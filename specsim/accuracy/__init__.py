"""Predictions held against measurements, and the few constants that are fitted to them."""
