"""A demonstration on generated data with known noise: ``python -m usnrt.demo``.

Three regions have different noise, and the mean jumps at one of the boundaries. What the model finds is compared with
the truth in tables and a figure, and a report is written as for real data.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

from usnrt import USNRTRegressor
from usnrt.datasets import Truth, make_heteroscedastic
from usnrt.reporting import write_report
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_TRAIN, N_TEST = 10_000, 20_000
# A typical seed: of the seeds 0 to 5 it has the median CRPS (4 % above that of the true distribution).
SEED = 1
COVERAGES = (0.5, 0.8, 0.9, 0.95)
COLOURS = ("#1b6ca8", "#e08e1b", "#b3322f")  # one per region, distinguishable by colour-blind readers


@dataclass(frozen=True)
class Findings:
    """What the model found, compared with the truth."""

    model: USNRTRegressor
    truth: Truth
    # one row per split of the tree: feature, threshold, and the true boundary that it found (NaN if none)
    splits: Table
    # one row per true region: test rows, true and predicted standard deviation, coverage of 90 % intervals
    regions: Table
    # shape (n_regions, len(COVERAGES)); coverage of the intervals of each nominal coverage on the test rows of each
    # region
    coverage: Floats


def find(n_train: int = N_TRAIN, n_test: int = N_TEST, verbose: int = 1, **params: Any) -> Findings:
    """Fit on generated rows and compare with the truth on new ones.

    Parameters
    ----------
    verbose : int
        Passed to the model: 1 shows its progress.
    **params
        Other parameters of the model.
    """
    bunch = make_heteroscedastic("piecewise", n_train, random_state=SEED)
    test = generate_test_rows(n_test)
    model = USNRTRegressor(**{"random_state": SEED, "verbose": verbose, **params})
    model.fit(bunch.data, bunch.target)
    lower, upper = np.moveaxis(model.predict_interval(test.data, list(COVERAGES)), 1, 0)
    inside = (lower <= test.target[:, None]) & (test.target[:, None] <= upper)
    _, std = model.predict(test.data, return_std=True)
    region = bunch.truth.region(test.data)
    members = [region == number for number in range(len(bunch.truth.regions))]
    coverage = np.array([inside[rows].mean(axis=0) for rows in members])
    regions = Table(
        {
            "true region": list(bunch.truth.regions),
            "rows": [int(rows.sum()) for rows in members],
            "true std": [bunch.truth.std(test.data[rows]).mean() for rows in members],
            "predicted std": [np.median(std[rows]) for rows in members],
            "coverage of 90 %": [f"{share:.1%}".replace("%", " %") for share in coverage[:, COVERAGES.index(0.9)]],
        }
    )
    return Findings(model, bunch.truth, compare_splits(model, bunch.truth), regions, coverage)


def generate_test_rows(n: int) -> Bunch:
    """New rows of the same distribution."""
    return make_heteroscedastic("piecewise", n, random_state=1000 + SEED)


def compare_splits(model: USNRTRegressor, truth: Truth) -> Table:
    """The splits of the tree, most significant first, each with the nearest true boundary of its feature.

    Parameters
    ----------
    model : USNRTRegressor
        Fitted on rows of ``truth``.

    Returns
    -------
    Table
        Columns ``feature``, ``threshold``, ``true boundary`` (NaN if none is within 0.05) and ``T``.
    """
    tree = model.tree_
    splits = sorted(np.flatnonzero(tree.feature >= 0), key=lambda node: -abs(tree.statistic[node]))
    near = [
        next(
            (t for f, t in truth.boundaries if f == tree.feature[node] and abs(t - tree.threshold[node]) < 0.05), np.nan
        )
        for node in splits
    ]
    return Table(
        {
            "feature": [model.columns_[tree.feature[node]].name for node in splits],
            "threshold": tree.threshold[splits],
            "true boundary": near,
            "T": tree.statistic[splits],
        }
    )


def run(output_dir: str | Path = "demo-output", *, n_train: int = N_TRAIN, n_test: int = N_TEST, **params: Any) -> Path:
    """Fit, print and draw the comparison with the truth, and write a report on the model.

    Parameters
    ----------
    output_dir : path, default="demo-output"
        Created if it does not exist.
    n_train, n_test, **params
        As in `find`.

    Returns
    -------
    Path
        The figure that was written; ``report.html`` is in the same folder.
    """
    need_packages()
    print(f"Fitting {n_train:,} generated rows with known noise.\n", flush=True)
    found = find(n_train, n_test, **params)
    print("\nBoundaries: thresholds of the tree and true boundaries of the noise")
    print(found.splits)
    print(f"\nNoise: {n_test:,} new rows, predicted standard deviation (median) and coverage of 90 % intervals")
    print(found.regions)
    print()
    path = draw(found, Path(output_dir) / "usnrt-demo.png")
    print(f"wrote {path}")
    test = generate_test_rows(n_test)
    page = Path(output_dir) / "report.html"
    print(f"wrote {write_report(found.model, test.data, test.target, page, source='new generated data')}")
    return path


def need_packages() -> None:
    """Raise an ImportError that names a package for the demo's output that is not installed, before anything is fitted.

    Examples
    --------
    >>> need_packages()
    """
    for package, extra, what in (("matplotlib", "plot", "figure"), ("jinja2", "report", "report")):
        if find_spec(package) is None:
            raise ImportError(f"the demo's {what} needs {package}: pip install 'usnrt[{extra}]'")


def draw(found: Findings, path: Path) -> Path:
    """Draw the true and the predicted noise and save the figure.

    Parameters
    ----------
    path : Path
        Its folder is created if it does not exist.
    """
    need_packages()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3, width_ratios=(1.15, 1.15, 1))
    _draw_map(axes[0], found)
    _draw_along_x0(axes[1], found)
    _draw_coverage(axes[2], found)
    for ax in axes[1:]:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.92")
        ax.set_axisbelow(True)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _draw_map(ax: "Axes", found: Findings) -> None:
    """The predicted standard deviation over the two relevant features, with the true boundaries."""
    from matplotlib.colors import LogNorm

    grid = np.linspace(0, 1, 201)
    x0, x1 = np.meshgrid(grid, grid)
    at = np.full((x0.size, found.model.n_features_in_), 0.5)
    at[:, 0], at[:, 1] = x0.ravel(), x1.ravel()
    std = found.model.predict(at, return_std=True)[1].reshape(x0.shape)
    norm = LogNorm(0.07, 1.4)
    image = ax.pcolormesh(x0, x1, std, norm=norm, cmap="viridis", shading="nearest", rasterized=True)
    bar = ax.figure.colorbar(image, ax=ax, ticks=[0.1, 0.2, 0.4, 1.0], format="%g", pad=0.02)
    bar.ax.minorticks_off()
    bar.set_label("predicted standard deviation")
    ax.plot([0.5, 0.5], [0, 1], "w--", lw=2)
    ax.plot([0.5, 1], [0.4, 0.4], "w--", lw=2, label="true boundary")
    for x, y, text in ((0.25, 0.5, "0.1"), (0.75, 0.2, "0.4"), (0.75, 0.7, "1.0")):
        ax.text(x, y, f"true std\n{text}", ha="center", va="center", color="white", fontweight="bold")
    ax.legend(loc="lower left", labelcolor="white", frameon=False, handlelength=1.8)
    ax.set(xlabel="x0", ylabel="x1", title="Predicted uncertainty", xlim=(0, 1), ylim=(0, 1))


def _draw_along_x0(ax: "Axes", found: Findings) -> None:
    """True and predicted standard deviation along x0, for two values of x1."""
    x0 = np.linspace(0, 1, 401)
    for x1, colour in ((0.2, COLOURS[1]), (0.7, COLOURS[2])):
        # median and range over x2, which should have no effect
        curves = []
        for x2 in np.linspace(0.05, 0.95, 10):
            at = np.full((len(x0), found.model.n_features_in_), 0.5)
            at[:, 0], at[:, 1], at[:, 2] = x0, x1, x2
            curves.append(found.model.predict(at, return_std=True)[1])
        ax.fill_between(x0, np.min(curves, axis=0), np.max(curves, axis=0), color=colour, alpha=0.2, lw=0)
        ax.plot(x0, np.median(curves, axis=0), color=colour, lw=2, label=f"predicted, x1 = {x1}")
        ax.plot(x0, found.truth.std(at), color=colour, lw=1.5, ls="--", label=f"true, x1 = {x1}")
    ax.set_yscale("log", base=10)
    ax.set_yticks([0.05, 0.1, 0.2, 0.4, 1.0, 2.0], labels=["0.05", "0.1", "0.2", "0.4", "1", "2"])
    ax.minorticks_off()
    ax.legend(frameon=False, loc="upper left", fontsize=9, title="bands: range over x2", title_fontsize=9)
    ax.set(xlabel="x0", ylabel="standard deviation", title="Noise along x0", xlim=(0, 1), ylim=(0.05, 2))


def _draw_coverage(ax: "Axes", found: Findings) -> None:
    """Nominal against observed coverage in each region."""
    ax.plot([0.4, 1], [0.4, 1], color="0.6", lw=1, ls="--", label="nominal")
    for name, shares, colour, marker in zip(found.truth.regions, found.coverage, COLOURS, "os^"):
        ax.plot(COVERAGES, shares, marker=marker, color=colour, lw=1.5, label=name)
    ax.legend(frameon=False, loc="upper left", fontsize=9)
    ax.set(xlim=(0.42, 1), ylim=(0.42, 1), title="Nominal and observed coverage")
    ax.set(xlabel="nominal coverage", ylabel="observed coverage on new rows")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``python -m usnrt.demo``."""
    parser = argparse.ArgumentParser(prog="python -m usnrt.demo", description="Fit generated data with known noise.")
    parser.add_argument("--output", default="demo-output", help="folder of the output (default: demo-output)")
    run(parser.parse_args(arguments).output)


if __name__ == "__main__":
    main()
