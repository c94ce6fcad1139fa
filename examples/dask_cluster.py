"""The members of an ensemble fitted on the workers of a Dask cluster, through joblib.

Needs ``pip install 'usnrt[dask]'``. Here the cluster is two processes of this machine; with the address of a real one
nothing else changes. The result is the same, bit for bit, wherever the members were fitted.
"""

import joblib
import numpy as np
from dask.distributed import Client, LocalCluster

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.datasets import make_heteroscedastic


def main() -> None:
    """Fit the same ensemble here and on the cluster."""
    bunch = make_heteroscedastic("piecewise", 400, random_state=0)
    recipe = USNRTRegressor(max_epochs=5)
    here = USNRTEnsemble(recipe, n_estimators=2, random_state=0).fit(bunch.data, bunch.target)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster), joblib.parallel_config("dask"):
        there = USNRTEnsemble(recipe, n_estimators=2, random_state=0).fit(bunch.data, bunch.target)
    same = np.array_equal(here.predict(bunch.data), there.predict(bunch.data))
    print(f"2 members on 2 workers; the same predictions as here: {same}")


if __name__ == "__main__":
    main()
