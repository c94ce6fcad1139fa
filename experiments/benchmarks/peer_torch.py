"""The same recipes as plain PyTorch programs: the peer that our engine is measured against.

PyTorch is no dependency of usnrt; install it for these benchmarks with ``pip install torch==2.13.0``.
"""

import copy
import itertools
import sys

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("this benchmark compares with PyTorch, which is not installed: pip install torch==2.13.0")


def make_network(sizes, activation=torch.nn.ReLU, softplus=False):
    """A multilayer perceptron with Xavier weights."""
    layers = []
    for n_in, n_out in itertools.pairwise(sizes):
        layer = torch.nn.Linear(n_in, n_out)
        torch.nn.init.xavier_normal_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        layers += [layer, activation()]
    layers.pop()
    return torch.nn.Sequential(*layers, *([torch.nn.Softplus()] if softplus else []))


def squared_error(out, target, weight):
    """Weighted least squares."""
    return (weight * (target - out) ** 2).mean()


def variance_nll(out, squared_residual, weight):
    """Gaussian likelihood of a variance; the target is the squared residual."""
    variance = out + 1e-8
    return (weight * (torch.log(variance) + squared_residual / variance)).mean()


def train(
    network,
    loss,
    x,
    target,
    weight,
    *,
    train_rows,
    valid_rows,
    batch_size=64,
    max_epochs=1000,
    lr=0.01,
    validations=None,
):
    """Adam, mini-batches, the best weights kept: what the paper's code does.

    It validates after every batch (``validations=None``), or as often per epoch as ``validations`` says, at the same
    batches as ours. Returns the number of epochs.
    """
    optimiser = torch.optim.Adam(network.parameters(), lr=lr)
    best, best_loss, epoch_losses = copy.deepcopy(network.state_dict()), np.inf, []
    x_valid, target_valid, weight_valid = x[valid_rows], target[valid_rows], weight[valid_rows]
    for _ in range(max_epochs):
        losses = []
        batches = train_rows[torch.randperm(len(train_rows))].split(batch_size)
        n_checks = len(batches) if validations is None else min(validations, len(batches))
        checked = {(k + 1) * len(batches) // n_checks - 1 for k in range(n_checks)}
        for step, batch in enumerate(batches):
            optimiser.zero_grad()
            loss(network(x[batch])[:, 0], target[batch], weight[batch]).backward()
            optimiser.step()
            if step not in checked:
                continue
            with torch.no_grad():
                losses.append(float(loss(network(x_valid)[:, 0], target_valid, weight_valid)))
            if losses[-1] < best_loss:
                best, best_loss = copy.deepcopy(network.state_dict()), losses[-1]
        epoch_losses.append(np.mean(losses))
        if len(epoch_losses) >= 25 and np.mean(epoch_losses[-5:]) > np.mean(epoch_losses[-25:-5]):
            break
    network.load_state_dict(best)
    return len(epoch_losses)
