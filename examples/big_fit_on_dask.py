"""One fit to a Dask DataFrame on the workers of a cluster, and lazy predictions for all of its rows.

Needs ``pip install 'usnrt[dask]'``. Here the cluster is two processes of this machine and the table is made by the
workers, partition by partition; with ``Client("tcp://scheduler:8786")`` and ``dd.read_parquet("s3://...")`` nothing
else changes. A table of more than 1,048,576 rows stays on the workers: ``python big_fit_on_dask.py 4000000``.
"""

import resource
import sys

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

from usnrt import USNRTRegressor

FEATURES = ["area", "rooms", "district"]


def sales(number: int, n_rows: int) -> pd.DataFrame:
    """One partition: flats whose prices are far less certain in the old town."""
    rng = np.random.default_rng(number)
    area, rooms = rng.uniform(20, 200, n_rows), rng.integers(1, 7, n_rows)
    district = rng.choice(["old town", "suburb"], n_rows)
    noise = np.where(district == "old town", 40.0, 5.0) * rng.normal(size=n_rows)
    return pd.DataFrame({"area": area, "rooms": rooms, "district": district, "price": 3 * area + 10 * rooms + noise})


def main() -> None:
    """Fit on the workers; predict there too."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        meta = sales(0, 2)[:0]
        table = dd.from_map(sales, range(4), n_rows=n_rows // 4, meta=meta)
        model = USNRTRegressor(max_epochs=5, random_state=0).fit(table[FEATURES], table["price"])
        predicted = model.predict_table(table, coverage=0.9)  # nothing is computed yet
        inside = (predicted["lower"] <= table["price"]) & (table["price"] <= predicted["upper"])
        print(f"{predicted.npartitions} partitions; {inside.mean().compute():.0%} of the prices are in their interval")
    print(*model.rules()["rule"], sep="\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the client: {peak:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
