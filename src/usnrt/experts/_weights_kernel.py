"""Compiled losses of combinations of experts."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from usnrt.utils.jit import kernel


@kernel()
def candidate_losses(quantiles, weights, y, levels, shares, losses):
    """Fill `losses` (n_candidates, n) with the pinball losses of weighted averages of `quantiles` (k, n, J)."""
    n_experts, n, n_levels = quantiles.shape
    average = np.empty(n_levels)
    for i in range(n):
        for candidate in range(len(weights)):
            for j in range(n_levels):
                average[j] = 0.0
            for expert in range(n_experts):
                weight = weights[candidate, expert]
                if weight != 0.0:
                    for j in range(n_levels):
                        average[j] += weight * quantiles[expert, i, j]
            loss = 0.0
            for j in range(n_levels):
                distance = y[i] - average[j]
                loss += shares[j] * max(levels[j] * distance, (levels[j] - 1.0) * distance)
            losses[candidate, i] = loss
