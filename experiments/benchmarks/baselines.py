"""A Deep Ensemble fit and 1,000 dropout passes at d = 12: eager PyTorch against ours, one thread each.

Both ensembles have 5 members of [8d, 4d] mean and variance networks, trained in turns twice with Adam in batches of 64
for the same number of epochs, validated once an epoch. Both dropout networks have [8d, 16d, 4d] units and a rate of
0.5; PyTorch's loop over passes draws a mask for every row, ours one for all rows of a pass, which gives each row the
same distribution and leaves whole units out of the products. Programs are compiled before the clock starts. Times are
of the processor, so that other work on the machine does not count. The last line is the smaller of the two ratios, each
divided by its goal.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import copy
from time import process_time

import numpy as np

import peer_torch
from history import record
from peer_torch import torch
from usnrt.paper.baselines import DeepEnsembleRegressor, MCDropoutRegressor

N_ROWS, D, EPOCHS, BATCH, MEMBERS, PASSES = 10_000, 12, 20, 64, 5, 1000
ENSEMBLE_GOAL, PASSES_GOAL = 8.0, 5.0


def make_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, D)).astype(np.float32)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + np.exp(0.5 * X[:, 3]) * rng.normal(size=N_ROWS)


def seconds(work, *arguments) -> float:
    start = process_time()
    work(*arguments)
    return process_time() - start


def our_ensemble(X: np.ndarray, y: np.ndarray) -> None:
    DeepEnsembleRegressor.paper(max_epochs=EPOCHS, patience=EPOCHS, random_state=0, n_jobs=1).fit(X, y)


def their_ensemble(X: np.ndarray, y: np.ndarray) -> None:
    x = torch.tensor((X - X.mean(axis=0)) / X.std(axis=0))
    target = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    ones = torch.ones(N_ROWS)
    for _ in range(MEMBERS):
        order = torch.randperm(N_ROWS)
        rows = order[N_ROWS // 5 :], order[: N_ROWS // 5]
        mean = peer_torch.make_network((D, 8 * D, 4 * D, 1))
        variance = peer_torch.make_network((D, 8 * D, 4 * D, 1), torch.nn.Tanh, softplus=True)
        weight = ones
        for _ in range(2):
            train(mean, peer_torch.squared_error, x, target, weight, *rows)
            with torch.no_grad():
                squared = (target - mean(x)[:, 0]) ** 2
            train(variance, peer_torch.variance_nll, x, squared, ones, *rows)
            with torch.no_grad():
                weight = 1.0 / torch.clamp(variance(x)[:, 0], min=1e-4)


def train(network, loss, x, target, weight, train_rows, valid_rows) -> None:
    """The usual loop: Adam, mini-batches, one validation an epoch, the best weights kept."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    best, best_loss = copy.deepcopy(network.state_dict()), np.inf
    for _ in range(EPOCHS):
        for batch in train_rows[torch.randperm(len(train_rows))].split(BATCH):
            optimiser.zero_grad()
            loss(network(x[batch])[:, 0], target[batch], weight[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            value = float(loss(network(x[valid_rows])[:, 0], target[valid_rows], weight[valid_rows]))
        if value < best_loss:
            best, best_loss = copy.deepcopy(network.state_dict()), value
    network.load_state_dict(best)


def their_passes(X: np.ndarray) -> None:
    """Mean and variance over the passes of a network left in training mode, in batches that fit the cache."""
    sizes = (D, 8 * D, 16 * D, 4 * D, 1)
    layers = []
    for layer in peer_torch.make_network(sizes):
        layers += [layer, torch.nn.Dropout(0.5)] if isinstance(layer, torch.nn.ReLU) else [layer]
    network = torch.nn.Sequential(*layers).train()
    with torch.no_grad():
        for chunk in torch.tensor(X).split(512):
            answers = torch.stack([network(chunk)[:, 0] for _ in range(PASSES)])
            answers.mean(dim=0), answers.var(dim=0)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    X, y = make_rows()
    our_ensemble(X, y)  # compiles
    mine, theirs = seconds(our_ensemble, X, y), seconds(their_ensemble, X, y)
    print(f"Deep Ensemble fit, {MEMBERS} x 4 trainings of {EPOCHS} epochs: PyTorch {theirs:.1f} s, ours {mine:.2f} s")
    print(f"  ratio: {theirs / mine:.1f}x (goal {ENSEMBLE_GOAL:.0f}x)")
    ensemble_ratio = theirs / mine

    model = MCDropoutRegressor.paper(max_epochs=2, random_state=0, n_jobs=1, n_passes=PASSES).fit(X[:1000], y[:1000])
    model.predict_dist(X[:10])  # compiles
    mine, theirs = seconds(model.predict_dist, X), seconds(their_passes, X)
    print(f"{PASSES:,} dropout passes over {N_ROWS:,} rows: PyTorch {theirs:.1f} s, ours {mine:.2f} s")
    print(f"  ratio: {theirs / mine:.1f}x (goal {PASSES_GOAL:.0f}x)")
    record(
        "baselines",
        {"Deep Ensemble fit, PyTorch": ensemble_ratio, f"{PASSES:,} dropout passes, PyTorch": theirs / mine},
    )
    print(f"ratio to the goals: {min(ensemble_ratio / ENSEMBLE_GOAL, theirs / mine / PASSES_GOAL):.2f}x (goal 1x)")


if __name__ == "__main__":
    main()
