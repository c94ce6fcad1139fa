"""What must hold for every prediction of every model."""

import numpy as np

LEVELS = np.array([1e-4, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1 - 1e-4])


class Broken(AssertionError):
    """An invariant does not hold."""


def check(holds, sentence):
    """Raise `Broken` with the sentence unless the invariant holds."""
    if not np.all(holds):
        raise Broken(f"{sentence} ({np.size(holds) - np.count_nonzero(holds)} of {np.size(holds)})")


def check_distribution(dist, y, low=-np.inf, high=np.inf):
    """Invariants of predicted distributions at targets y, within the bounds of the target."""
    mean, std, quantiles = dist.mean(), dist.std(), dist.ppf(LEVELS)
    check(np.isfinite(mean), "the mean is finite")
    check(std >= 0, "the standard deviation is a number of at least 0")
    check(~np.isnan(quantiles), "no quantile is NaN")
    check(np.diff(quantiles, axis=1) >= 0, "quantiles rise with the level")
    check((quantiles >= low) & (quantiles <= high), "quantiles are within the bounds of the target")
    slack = 1e-9 * np.abs(mean)
    ends = dist.ppf(np.array([1e-15, 1.0 - 1e-15]))
    check((mean >= ends[:, 0] - slack) & (mean <= ends[:, 1] + slack), "the mean is inside the support")
    check((mean >= low) & (mean <= high), "the mean is within the bounds of the target")
    _check_inverse(dist, quantiles)
    _check_at(dist, y)
    drawn = dist.rvs(3, random_state=0)
    check((drawn >= low) & (drawn <= high), "samples are within the bounds of the target")


def _check_inverse(dist, quantiles):
    """P(Y < q) <= level <= P(Y <= q), as exactly as float64 resolves the quantile."""
    step = 16 * _spacing(dist, np.maximum(np.abs(quantiles), np.abs(dist.mean())[:, None]))
    above = np.stack([dist.cdf(column) for column in (quantiles + step).T], axis=1)
    below = np.stack([dist.cdf_left(column) for column in (quantiles - step).T], axis=1)
    check(above >= LEVELS - 1e-6, "cdf(ppf(level)) is not below the level")
    check(below <= LEVELS + 1e-6, "cdf_left(ppf(level)) is not above the level")


def _spacing(dist, size):
    """Distance of numbers of this size; a rounded logarithm is off by as many of them as it is large."""
    if not hasattr(dist, "map") or not dist.map.log:
        return np.spacing(size)
    size = size + dist.map.shift
    return np.spacing(size) * np.maximum(1.0, np.abs(np.log(np.maximum(size, np.finfo(float).tiny))))


def _check_at(dist, y):
    """Metrics at targets."""
    cdf, crps, density = dist.cdf(y), dist.crps(y), dist.logpdf(y)
    check((cdf >= 0) & (cdf <= 1), "the cdf is in [0, 1]")
    check(crps >= -1e-9 * (np.abs(y) + np.abs(dist.mean())), "the CRPS is a number of at least 0")
    check(~np.isnan(density), "the log density is not NaN")


def predictions(model, X):
    """Everything that must be equal, bit for bit, in two models that are one."""
    found = {"mean": model.predict(X), "quantiles": model.predict_quantiles(X, LEVELS)}
    found["interval"] = model.predict_interval(X, 0.5)
    found["std"] = model.predict(X, return_std=True)[1]
    if hasattr(model, "tree_"):
        found["region"] = model.apply(X)
        found["supported"] = np.asarray(model.predict_support(X)["supported"])
    return {name: np.ascontiguousarray(values).tobytes() for name, values in found.items()}


def check_equal_bits(one, other, why):
    """Check that two dictionaries of `predictions` are equal."""
    different = [name for name in one if one[name] != other[name]]
    check(not different, f"the same bits {why}: {', '.join(different)} differ")


def check_sentence(error):
    """An error of the documented kinds: a ValueError or TypeError of one readable sentence."""
    text = str(error)
    check(isinstance(error, ValueError | TypeError), f"the error is a ValueError or TypeError: {type(error).__name__}")
    check(0 < len(text) < 2000, "the error has a sentence")
    first = text.splitlines()[0] if text else ""
    inner = ("operands could not", "cannot reshape", "index ", "unsupported operand", "object has no attribute")
    check(not first.startswith(inner), f"the error is a sentence of the library: {first[:90]}")
