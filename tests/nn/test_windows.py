"""Training on windows: every row once per pass, and the same bits wherever it was interrupted."""

import numpy as np
import pytest

from usnrt.nn.mlp import MLP
from usnrt.nn.quantile_training import QuantileRows, QuantileSteps
from usnrt.nn.quantiles import N_OUTPUTS, start_at
from usnrt.nn.train import Training
from usnrt.nn.windows import EncodedRows, Passes, train_on_windows
from usnrt.utils.checkpoint import FolderCheckpoint
from usnrt.utils.threads import ONE_BLAS_THREAD

NETWORK = MLP((2, 8, N_OUTPUTS), "algebraic")
TRAINING = Training(learning_rate=0.01, batch_size=32, max_epochs=1, schedule="cosine", average=0.9)


class Reader:
    """Rows in memory, and how often each was read."""

    def __init__(self, n_rows=700):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(n_rows, 2)).astype(np.float32)
        y = (x[:, 0] + 0.1 * rng.normal(size=n_rows)).astype(np.float32)
        self.rows, self.n_rows, self.n_reads = EncodedRows(x, y, np.ones(n_rows, np.float32)), n_rows, np.zeros(n_rows)

    def start_reading(self, spans):
        rows = np.concatenate([np.arange(*span) for span in spans])
        self.n_reads[rows] += 1

        class Read:
            def result(_):
                return EncodedRows(*(part[rows] for part in self.rows))

        return Read()


def passes(n_passes=2):
    return Passes(n_passes, piece_rows=64, window_pieces=3, seed=5)


def trained(reader=None, n_threads=1, loss=None, **options):
    reader = Reader() if reader is None else reader
    steps, new = QuantileSteps(NETWORK, None, TRAINING, n_threads=n_threads), Reader().rows
    rows = QuantileRows.of(None, new.inputs, None, new.target, new.weight)
    params = start_at(NETWORK, np.random.default_rng(0), 0.0, 1.0)
    loss = loss or (lambda weights: steps.loss(weights, rows, np.arange(100)))
    with ONE_BLAS_THREAD:
        return train_on_windows(steps, None, reader, passes(), params, loss, **options)


def equal(first, second):
    return all(np.array_equal(a, b) for one, two in zip(first, second) for a, b in zip(one, two))


def test_every_pass_reads_every_row_once():
    reader = Reader()
    trained(reader)
    np.testing.assert_array_equal(reader.n_reads, 2)


def test_passes_have_different_orders():
    orders = [[span for w in range(4) for span in passes().window(700, 4 * n + w)] for n in (0, 1)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [(k, min(k + 64, 700)) for k in range(0, 700, 64)]


def test_training_learns():
    losses = trained()[1].valid_loss
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("stopped_after", [0, 3, 6])
def test_a_resumed_training_ends_with_the_same_bits(tmp_path, stopped_after):
    params, history = trained()
    assert len(history.valid_loss) == 8

    def stop(position, *losses):
        if position == stopped_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(on_window=stop, checkpoint=FolderCheckpoint(tmp_path))
    seen = []
    resumed, resumed_history = trained(
        on_window=lambda position, *losses: seen.append(position), checkpoint=FolderCheckpoint(tmp_path)
    )
    assert seen == list(range(stopped_after + 1, 8))
    assert equal(params, resumed)
    assert resumed_history == history


def test_a_diverged_training_keeps_its_last_good_weights():
    losses = iter([1.0, 0.5, np.nan])
    kept, history = trained(loss=lambda _: next(losses))
    assert history.diverged
    assert history.best_epoch == 1
    assert np.isfinite(kept[0][0]).all()
