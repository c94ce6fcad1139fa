"""The estimators of this library: `USNRTRegressor` and `USNRTEnsemble`, and those of the paper."""
