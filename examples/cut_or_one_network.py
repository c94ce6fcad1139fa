"""One network for all rows, or two, one on each side of a cut? The paper's Propositions 1 and 3 as a study.

The paper proves that two networks have an expected risk no larger than that of one network, and a smaller one where the
mean (or, for the likelihood, the variance) jumps at the cut. That holds for the best networks of a class. Here they are
trained on n rows, with the cut at its true place. As the truth is known, the excess risk over it has no test noise:

- squared error: the mean of (f - true f)^2 over fresh rows;
- likelihood: the mean Kullback-Leibler divergence of the predicted normal distribution from the true one.

``--quick`` takes seconds; the defaults are the study of docs/theory.md.
"""

import argparse
import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from usnrt.nn.device import DeviceTable
from usnrt.nn.forward import predict
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.losses import squared_error, variance_nll
from usnrt.nn.mlp import MLP
from usnrt.nn.train import Training, train

LINE = (
    "{case:14}  {loss:13}  {hidden:3} units  {rows:6} rows:  one {one:.5f}  two {two:.5f}  "
    "gain {gain:+.5f} +- {gain_se:.5f}  cut better in {draws_won} of {draws}"
)
LOSSES = ("squared error", "likelihood")
BATCH_SIZE = 64
# Small ReLU networks sometimes get stuck, and the theory is about the best of a class: validation rows choose a start.
N_STARTS = 2
# How often mean and variance are trained in turns; two, as in the paper.
N_TURNS = 2


@dataclass(frozen=True)
class Case:
    """Two regions, x0 <= 0 and x0 > 0, that share one smooth mean up to a jump.

    Attributes
    ----------
    mean_jump : float
        What the mean gains at the cut.
    std : (float, float)
        Standard deviation of the normal noise in each region.
    """

    mean_jump: float
    std: tuple[float, float]

    def mean(self, x: np.ndarray) -> np.ndarray:
        """True mean of each row."""
        return np.sin(np.pi * (x[:, 0] + 0.5 * x[:, 1])) + self.mean_jump * (x[:, 0] > 0)

    def variance(self, x: np.ndarray) -> np.ndarray:
        """True variance of each row."""
        return np.where(x[:, 0] > 0, self.std[1], self.std[0]) ** 2


CASES = {
    "mean jumps": Case(2.0, (0.5, 0.5)),
    "variance jumps": Case(0.0, (0.1, 1.0)),
    "nothing jumps": Case(0.0, (0.5, 0.5)),
}


def draw_inputs(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of two features, uniform on [-1, 1]."""
    return rng.uniform(-1.0, 1.0, size=(n, 2)).astype(np.float32)


def fit(
    x: np.ndarray, y: np.ndarray, rows: np.ndarray, hidden: int, steps: int, rng: np.random.Generator
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Train networks on some rows: a mean by least squares, then mean and variance in turns by likelihood.

    Every network gets the same number of steps, however few rows it has, and keeps the weights of the epoch that was
    best on a fifth of its rows.

    Parameters
    ----------
    x, y : ndarray of shape (n, 2) and (n,)
    rows : ndarray of int
        Rows of this region, in random order.
    hidden : int
        Units in each of two hidden layers.
    steps : int
        Most steps of each training.
    rng : numpy.random.Generator

    Returns
    -------
    callable
        From inputs to three arrays: least-squares mean; mean and variance by likelihood.
    """
    valid_rows, train_rows = np.split(rows, [len(rows) // 5])
    mean_net, variance_net = MLP((2, hidden, hidden, 1)), MLP((2, hidden, hidden, 1), "tanh", "softplus")
    n_epochs = max(1, steps * BATCH_SIZE // len(train_rows))
    training = Training(0.01, BATCH_SIZE, n_epochs, schedule="cosine", patience=max(30, n_epochs // 3))
    table = DeviceTable(x)

    def run(network: MLP, loss: Any, params: Any, target: np.ndarray, weight: np.ndarray | None) -> tuple[Any, float]:
        epochs = JaxEpochs(network, loss, table, target, weight, (train_rows, valid_rows), training)
        params, history = train(epochs, params, rng)
        return params, min(history.valid_loss)

    starts = [run(mean_net, squared_error, mean_net.init(rng), y, None) for _ in range(N_STARTS)]
    mean = least_squares = min(starts, key=lambda start: start[1])[0]
    variance = variance_net.init(rng)
    for turn in range(N_TURNS):
        if turn > 0:
            mean, _ = run(mean_net, squared_error, mean, y, 1.0 / predict(variance_net, variance, x))
        variance, _ = run(variance_net, variance_nll, variance, (y - predict(mean_net, mean, x)) ** 2, None)
    return lambda z: tuple(
        predict(network, params, z)
        for network, params in ((mean_net, least_squares), (mean_net, mean), (variance_net, variance))
    )


def excess_risks(case: Case, n: int, hidden: int, steps: int, seed: int, n_test: int) -> np.ndarray:
    """Excess risk on one draw, of shape (2 losses, 2): one network for all rows; two networks.

    Parameters
    ----------
    case : Case
    n : int
        Rows to train on, validation rows among them.
    hidden, steps : int
        As in `fit`.
    seed : int
        Both ways get the same rows.
    n_test : int
        Fresh rows.
    """
    rng = np.random.default_rng([seed, n])
    x, z = draw_inputs(n, rng), draw_inputs(n_test, rng)
    y = case.mean(x) + np.sqrt(case.variance(x)) * rng.normal(size=n)
    order = rng.permutation(n)
    everywhere = np.zeros(n_test, dtype=int), np.zeros(n, dtype=int)
    cut = (z[:, 0] > 0).astype(int), (x[:, 0] > 0).astype(int)
    risks = []
    for test_region, region in (everywhere, cut):
        outputs = np.empty((3, n_test))
        for number in range(region.max() + 1):
            predict_region = fit(x, y, order[region[order] == number], hidden, steps, rng)
            outputs[:, test_region == number] = predict_region(z[test_region == number])
        risks.append(risks_above_the_truth(case, z, *outputs))
    return np.array(risks).T


def risks_above_the_truth(
    case: Case, z: np.ndarray, least_squares: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[float, float]:
    """Excess risk of each loss on rows ``z``, from the outputs of `fit`."""
    ratio = case.variance(z) / variance
    divergence = 0.5 * (ratio - 1.0 - np.log(ratio) + (mean - case.mean(z)) ** 2 / variance)
    return float(np.mean((least_squares - case.mean(z)) ** 2)), float(np.mean(divergence))


def study(
    cases: Sequence[str],
    hidden: Sequence[int],
    rows: Sequence[int],
    draws: int,
    steps: int,
    n_test: int,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yield one result per case, loss, network size and number of rows, as soon as its draws are done."""
    for name, units, n in itertools.product(cases, hidden, rows):
        risks = np.array([excess_risks(CASES[name], n, units, steps, seed + k, n_test) for k in range(draws)])
        for loss, (one, two) in zip(LOSSES, risks.transpose(1, 2, 0)):
            yield {"case": name, "loss": loss, "hidden": units, "rows": n, **summary(one, two)}


def summary(one: np.ndarray, two: np.ndarray) -> dict[str, float]:
    """Means over draws; the gain is that of the cut, paired by draw, with its standard error."""
    gain = one - two
    return {
        "one": float(one.mean()), "two": float(two.mean()), "gain": float(gain.mean()),
        "gain_se": float(np.std(gain, ddof=1) / np.sqrt(len(gain))),
        "draws_won": int((gain > 0).sum()), "draws": len(gain),
    }  # fmt: skip


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a picture: excess risk against the number of rows, a panel per loss and case.

    The error bars, at the risk of two networks, are standard errors of the paired difference to one network.
    """
    from matplotlib.figure import Figure

    colours = dict(zip(sorted({result["hidden"] for result in results}), ("#E69F00", "#009E73", "#0072B2", "#CC79A7")))
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplots(len(LOSSES), len(CASES), sharex=True, sharey="row", squeeze=False)
    for row, loss in zip(axes, LOSSES):
        for ax, case in zip(row, CASES):
            for hidden, colour in colours.items():
                found = [r for r in results if (r["case"], r["loss"], r["hidden"]) == (case, loss, hidden)]
                n = [r["rows"] for r in found]
                one, two, error = ([r[name] for r in found] for name in ("one", "two", "gain_se"))
                look = {"color": colour, "markersize": 4}
                ax.plot(n, one, "o--", label=f"one network, {hidden} units", **look)
                ax.errorbar(n, two, error, fmt="s-", capsize=3, label=f"cut, two networks, {hidden} units", **look)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xticks(n, [f"{k:,}" for k in n], minor=False)
            ax.minorticks_off()
            ax.grid(alpha=0.3)
            ax.spines[["top", "right"]].set_visible(False)
            if loss == LOSSES[0]:
                ax.set_title(case)
            else:
                ax.set_xlabel("rows")
        row[0].set_ylabel(f"excess risk ({loss})")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(colours), frameon=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, print its table, write it as CSV and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--hidden", type=int, nargs="+", default=[8, 16, 64])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 4000, 32_000])
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3000, help="most steps of each training")
    parser.add_argument("--test-rows", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw; the others count on")
    parser.add_argument("--quick", action="store_true", help="few small draws instead of the study")
    parser.add_argument("--picture", type=Path, default=Path("cut_or_one_network.png"))
    parser.add_argument("--csv", type=Path, default=Path("theory.csv"))
    options = parser.parse_args(arguments)
    if options.quick:
        options.hidden, options.rows, options.draws, options.steps, options.test_rows = [16], [500, 2000], 3, 500, 5000
    sizes = options.hidden, options.rows, options.draws, options.steps, options.test_rows, options.seed
    results = []
    with options.csv.open("w", newline="") as file:
        for result in study(options.cases, *sizes):
            results.append(result)
            writer = csv.DictWriter(file, list(result), lineterminator="\n")
            if len(results) == 1:
                writer.writeheader()
            writer.writerow({name: f"{v:.5f}" if isinstance(v, float) else v for name, v in result.items()})
            file.flush()  # a study that is stopped leaves what it has found
            print(LINE.format(**result), flush=True)
    draw(results, options.picture)
    print(f"wrote {options.csv} and {options.picture}")


if __name__ == "__main__":
    main()
