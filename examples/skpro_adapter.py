"""An adapter that makes our model a skpro regressor, to use skpro's metrics, pipelines and tuning.

Needs ``pip install skpro``.
"""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from skpro.distributions import QPD_Empirical
from skpro.metrics import CRPS
from skpro.regression.base import BaseProbaRegressor

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic

LEVELS = np.linspace(0.005, 0.995, 199)  # enough for skpro to rebuild the distribution


class SkproUSNRT(BaseProbaRegressor):
    """Our model behind skpro's interface.

    Parameters
    ----------
    estimator : USNRTRegressor
    """

    _tags: ClassVar[dict[str, Any]] = {"capability:multioutput": False, "capability:missing": True}

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> "SkproUSNRT":
        self._column = y.columns
        self.estimator_ = (USNRTRegressor() if self.estimator is None else self.estimator).fit(X, y.iloc[:, 0])
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self.estimator_.predict(X), index=X.index, columns=self._column)

    def _predict_quantiles(self, X: pd.DataFrame, alpha: list[float]) -> pd.DataFrame:
        columns = pd.MultiIndex.from_product([self._column, alpha])
        return pd.DataFrame(self.estimator_.predict_quantiles(X, alpha), index=X.index, columns=columns)

    def _predict_proba(self, X: pd.DataFrame) -> QPD_Empirical:
        values = self.estimator_.predict_quantiles(X, LEVELS)
        rows = pd.MultiIndex.from_product([LEVELS, X.index])
        quantiles = pd.DataFrame(values.T.ravel(), index=rows, columns=self._column)
        return QPD_Empirical(quantiles, index=X.index, columns=self._column)


def main() -> None:
    """Fit through skpro and measure with skpro's CRPS; our own should say the same."""
    train, test = (make_heteroscedastic("piecewise", n, random_state=n) for n in (1500, 300))
    X_train, X_test = (pd.DataFrame(b.data, columns=b.feature_names) for b in (train, test))
    y_train, y_test = (pd.DataFrame({"y": b.target}) for b in (train, test))
    model = SkproUSNRT(USNRTRegressor(min_samples_leaf=300, max_epochs=30, random_state=0)).fit(X_train, y_train)
    theirs = CRPS()(y_test, model.predict_proba(X_test))
    ours = model.estimator_.predict_dist(X_test).crps(test.target).mean()
    print(f"CRPS by skpro {theirs:.4f}, by usnrt {ours:.4f}")
    print(model.predict_interval(X_test.head(3), coverage=0.9).round(2))


if __name__ == "__main__":
    main()
