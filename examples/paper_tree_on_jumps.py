"""Does the paper's tree beat one pair of networks where its theory says that a cut pays?

The data "jump" have two regions; mean and noise are smooth inside and both jump at the boundary. The paper's tree has
to find the boundary and trains its networks from nothing on the rows of each region; the same recipe with
``max_leaves=1`` trains one pair of networks on all rows. Regions of at least a third of the rows (``max_leaves=3``)
leave room for one cut, those of a tenth (``max_leaves=10``, the paper's) for more. All are compared by the negative
log-likelihood (NLL) of the same fresh rows, draw by draw. docs/theory.md discusses the results; ``--quick`` takes
seconds.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic

MAX_LEAVES = (1, 3, 10)


def compare(n_rows: int, seed: int, n_test: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """NLL and number of regions on one draw, for each of ``MAX_LEAVES``."""
    training = make_heteroscedastic("jump", n_rows, random_state=seed)
    test = make_heteroscedastic("jump", n_test, random_state=10_000 + seed)
    nll, n_regions = [], []
    for max_leaves in MAX_LEAVES:
        model = USNRTRegressor.paper(max_leaves=max_leaves, random_state=seed, n_jobs=1)
        model.fit(training.data, training.target)
        nll.append(-model.predict_dist(test.data).logpdf(test.target).mean())
        n_regions.append(model.n_leaves_)
    return np.array(nll), np.array(n_regions)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what the trees gain over one pair of networks: mean over draws, standard error and sign count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2500, 4000, 10_000])
    parser.add_argument("--draws", type=int, default=20, help="seeded 0, 1, ...")
    parser.add_argument("--quick", action="store_true", help="two draws of 2,500 rows")
    options = parser.parse_args(arguments)
    rows, draws = ([2500], 2) if options.quick else (options.rows, options.draws)
    for n_rows in rows:
        nll, n_regions = (np.array(values) for values in zip(*(compare(n_rows, seed) for seed in range(draws))))
        print(f"{n_rows} rows: one pair of networks has NLL {nll[:, 0].mean():.3f}")
        for column in range(1, len(MAX_LEAVES)):
            gain = nll[:, 0] - nll[:, column]
            print(
                f"    max_leaves={MAX_LEAVES[column]:<2} ({n_regions[:, column].mean():.1f} regions): gain "
                f"{gain.mean():+.4f} +- {np.std(gain, ddof=1) / np.sqrt(draws):.4f}, "
                f"better in {(gain > 0).sum()} of {draws} draws",
                flush=True,
            )


if __name__ == "__main__":
    main()
