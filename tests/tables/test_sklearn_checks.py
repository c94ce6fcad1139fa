"""scikit-learn's own estimator checks on a small model that reads its tables with the encoder."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, column_or_1d

from usnrt.tables import NetworkInputs, TableEncoder, read_table


class LinearOnTables(RegressorMixin, BaseEstimator):
    """Least squares on the network inputs."""

    def __init__(self, categorical_features=None):
        self.categorical_features = categorical_features

    def fit(self, X, y):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        table = read_table(self, X, reset=True)
        y = column_or_1d(np.asarray(y), warn=True, dtype=np.float64)
        if len(y) != table.n_rows:
            raise ValueError(f"y must have {table.n_rows} entries, got {len(y)}")
        if not np.isfinite(y).all():
            raise ValueError("y must be finite, but it holds NaN or infinity")
        self.encoder_ = TableEncoder().fit(table, self.categorical_features)
        raw = self.encoder_.transform(table)
        self.inputs_ = NetworkInputs().fit(raw, self.encoder_.columns_)
        self.coef_ = np.linalg.lstsq(self._design(raw), y)[0]
        return self

    def _design(self, raw):
        return np.column_stack([np.ones(len(raw)), self.inputs_.transform(raw).astype(float)])

    def predict(self, X):
        check_is_fitted(self)
        # einsum sums every row in the same order however many rows there are
        design = self._design(self.encoder_.transform(read_table(self, X, reset=False)))
        return np.einsum("ij,j->i", design, self.coef_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


@parametrize_with_checks([LinearOnTables()])
def test_sklearn_check(estimator, check):
    check(estimator)
