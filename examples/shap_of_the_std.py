"""SHAP values of the stated standard deviation: which feature makes the model unsure of one row?

Needs ``pip install shap``.
"""

import numpy as np
import shap

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic


def main() -> None:
    """Explain the std of some rows; x0 and x1 should carry it, as they make the noise."""
    bunch = make_heteroscedastic("piecewise", 2000, random_state=0)
    model = USNRTRegressor(min_samples_leaf=300, max_epochs=40, random_state=0).fit(bunch.data, bunch.target)

    def stated_std(X: np.ndarray) -> np.ndarray:
        return model.predict(X, return_std=True)[1]

    explain = shap.Explainer(stated_std, shap.maskers.Independent(bunch.data, max_samples=50), seed=0)
    values = explain(bunch.data[:50])
    for name, share in zip(bunch.feature_names, np.abs(values.values).mean(axis=0)):
        print(f"{name}: moves the stated std by {share:.3f} on average")
    first = values[0]
    print(f"row 0: std {stated_std(bunch.data[:1])[0]:.3f} = {first.base_values:.3f} + {first.values.round(3)}")


if __name__ == "__main__":
    main()
