"""A tree at the end of a scikit-learn pipeline, behind a ColumnTransformer.

The model reads text, dates and missing values as they are, so a pipeline needs only the steps that are special to a
table: here the logarithm of one column.
"""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from usnrt import USNRTRegressor
from usnrt.metrics import evaluate


def make_table(n: int = 1200) -> tuple[pd.DataFrame, np.ndarray]:
    """Made-up incomes: noisy in one trade."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sales": rng.lognormal(3, 1, n), "trade": rng.choice(["art", "law", "tax"], n)})
    return X, np.log(X["sales"]) + rng.normal(size=n) * np.where(X["trade"] == "art", 1.0, 0.1)


def main() -> None:
    """Fit, predict through the pipeline, and evaluate it as a whole."""
    X, y = make_table()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    columns = ColumnTransformer(
        [("log", FunctionTransformer(np.log, feature_names_out="one-to-one"), ["sales"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = make_pipeline(columns, USNRTRegressor(min_samples_leaf=100, max_epochs=30, random_state=0))
    model.fit(X_train, y_train)
    mean, std = model.predict(X_test, return_std=True)
    for trade in ("art", "law"):
        rows = (X_test["trade"] == trade).to_numpy()
        print(
            f"{trade}: mean stated std {std[rows].mean():.2f}, RMSE {np.sqrt(np.mean((y_test - mean)[rows] ** 2)):.2f}"
        )
    print(evaluate(model, X_test, y_test))


if __name__ == "__main__":
    main()
