"""Calibration per region, and support of rows by the training data.

`groups` turns conformity scores into residual distributions and, by `conformal`, into intervals with guaranteed
coverage. `seen_rows` recognises rows seen in training. `support` and `landmarks` detect rows unlike the training rows
and widen their predictive distributions.
"""
