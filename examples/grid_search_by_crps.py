"""GridSearchCV that chooses by the quality of the whole distribution (CRPS), not of the mean alone."""

from sklearn.model_selection import GridSearchCV

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.metrics import get_scorer


def main() -> None:
    """Is a tree with regions better than one without, on data with regions?"""
    bunch = make_heteroscedastic("piecewise", 900, random_state=0)
    search = GridSearchCV(
        USNRTRegressor(min_samples_leaf=100, max_epochs=12, random_state=0),
        {"max_depth": [0, None]},
        scoring={"crps": get_scorer("neg_crps"), "nll": get_scorer("neg_nll")},
        refit="crps",
        cv=2,
    )
    search.fit(bunch.data, bunch.target)
    for params, crps in zip(search.cv_results_["params"], search.cv_results_["mean_test_crps"]):
        print(f"{params}: CRPS {-crps:.4f}")
    print(f"chosen: {search.best_params_}")
    print(search.best_estimator_.rules())


if __name__ == "__main__":
    main()
