"""Training on shards: every row once per pass, and the same bits whoever runs the shards, in whatever order."""

import pickle

import numpy as np
import pytest

from usnrt.nn.mlp import MLP
from usnrt.nn.quantiles import N_OUTPUTS, pinball, start_at
from usnrt.nn.rounds import (
    EncodedRows,
    RoundPlan,
    ShardTask,
    averaged_state,
    on_host,
    pieces_of,
    rounds_per_pass,
    train_rounds,
    train_shard,
)
from usnrt.nn.train import Training, start_state
from usnrt.tree.shards import ShardWriter
from usnrt.utils.checkpoint import FolderCheckpoint

NETWORK = MLP((2, 8, N_OUTPUTS), "algebraic")
HOW = Training(learning_rate=0.01, batch_size=32, max_epochs=1, schedule="cosine", average=0.9)


class Rows:
    """A shard in memory that counts how often each row was read."""

    def __init__(self, seed, n_rows=700):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n_rows, 2)).astype(np.float32)
        y = (x[:, 0] + 0.1 * rng.normal(size=n_rows)).astype(np.float32)
        self.rows, self.n_rows, self.n_reads = EncodedRows(x, y, np.ones(n_rows, np.float32)), n_rows, np.zeros(n_rows)

    def read(self, start, stop):
        self.n_reads[start:stop] += 1
        return EncodedRows(*(part[start:stop] for part in self.rows))


def plan_for(shards, n_passes=2):
    n_rounds = rounds_per_pass([shard.n_rows for shard in shards], 64, 3)
    return RoundPlan(NETWORK, pinball, None, HOW, n_passes, n_rounds, 64, 3, seed=5)


def loss_of(params):
    return float(np.abs(params[0][0]).sum())


def in_order(task, items):
    return [task(item) for item in items]


def backwards(task, items):
    return [task(item) for item in items[::-1]][::-1]


def trained(runner=in_order, shards=None, **options):
    shards = [Rows(0), Rows(1, 640), Rows(2, 30)] if shards is None else shards
    params = start_at(NETWORK, np.random.default_rng(0), 0.0, 1.0)
    return train_rounds(plan_for(shards), shards, params, loss_of, runner, **options)


def equal(first, second):
    return all(np.array_equal(a, b) for one, two in zip(first, second) for a, b in zip(one, two))


def test_every_pass_reads_every_row_once():
    shards = [Rows(0), Rows(1, 640), Rows(2, 30)]
    trained(shards=shards)
    for shard in shards:
        np.testing.assert_array_equal(shard.n_reads, 2)


def test_passes_have_different_orders():
    plan = plan_for([Rows(0)])
    first, second = (
        np.concatenate([pieces_of(plan, 700, n_pass * plan.n_rounds + r, 0) for r in range(plan.n_rounds)])
        for n_pass in (0, 1)
    )
    np.testing.assert_array_equal(np.sort(first), np.arange(11))
    assert not np.array_equal(first, second)


def test_the_order_in_which_shards_run_does_not_matter():
    params, history = trained()
    other, other_history = trained(backwards)
    assert equal(params, other)
    assert history.valid_loss == other_history.valid_loss


def test_training_learns():
    losses = trained()[1].train_loss
    assert losses[-1] < 0.7 * losses[0]


def test_a_shard_of_a_round_is_a_function_of_pickled_values():
    shard = Rows(0)
    state = on_host(start_state(start_at(NETWORK, np.random.default_rng(0), 0.0, 1.0)))
    task = ShardTask(plan_for([shard]), state, 1, 0)
    first = train_shard(task, shard)
    second = train_shard(*pickle.loads(pickle.dumps((task, shard))))
    assert equal(first.state[0], second.state[0])
    assert equal(first.state[2], second.state[2])
    assert (first.n_rows, first.loss) == (second.n_rows, second.loss)
    assert not equal(first.state[0], state[0])


@pytest.mark.parametrize("stopped_after", [0, 3, 7])
def test_a_resumed_training_ends_with_the_same_bits(tmp_path, stopped_after):
    params, history = trained()
    assert len(history.valid_loss) == 8

    def stop(position, *losses):
        if position == stopped_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(on_round=stop, checkpoint=FolderCheckpoint(tmp_path))
    shards, seen = [Rows(0), Rows(1, 640), Rows(2, 30)], []
    resumed, resumed_history = trained(
        shards=shards, on_round=lambda position, *losses: seen.append(position), checkpoint=FolderCheckpoint(tmp_path)
    )
    assert seen == list(range(stopped_after + 1, 8))
    assert equal(params, resumed)
    assert resumed_history == history


def test_states_are_averaged_by_rows_and_counters_are_kept():
    states = [(np.float32([0.0]), np.int32(3)), (np.float32([4.0]), np.int32(4))]
    mean, count = averaged_state(states, [300, 100])
    assert mean == pytest.approx([1.0])
    assert mean.dtype == np.float32
    assert count == 4


def test_a_diverged_training_keeps_its_last_good_weights():
    losses = iter([1.0, 0.5, np.nan])
    shards = [Rows(0)]
    params = start_at(NETWORK, np.random.default_rng(0), 0.0, 1.0)
    kept, history = train_rounds(plan_for(shards), shards, params, lambda _: next(losses), in_order)
    assert history.diverged
    assert history.best_epoch == 1
    assert np.isfinite(kept[0][0]).all()


def test_files_hold_what_was_written(tmp_path):
    rows = Rows(3).rows
    with ShardWriter(tmp_path, 2, 2) as writer:
        for start in (0, 300):
            writer.append(1, EncodedRows(*(part[start : start + 300] for part in rows)))
    empty, file = writer.files
    assert (empty.n_rows, file.n_rows) == (0, 600)
    for part, expected in zip(file.read(250, 410), rows):
        np.testing.assert_array_equal(part, expected[250:410])
