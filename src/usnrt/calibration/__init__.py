"""Calibration per region, and support: where predicted probabilities hold, and where there is no evidence for them."""
