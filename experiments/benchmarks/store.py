"""Time and memory from Parquet files to a store of encoded rows on disk; the argument is the number of rows.

Prints processor time and rows per second of both passes, and the peak of memory beyond that after imports.
"""

import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from usnrt.tables.find_source import as_source, training_source
from usnrt.tables.streaming import build_store
from usnrt.utils.folders import scratch_folder

N_FILES = 8
N_COLUMNS = 20


def peak() -> float:
    """The largest memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_files(folder: Path, n_rows: int) -> None:
    """Files of normal numbers."""
    for number in range(N_FILES):
        rng = np.random.default_rng(number)
        columns = {f"x{j}": rng.normal(size=n_rows // N_FILES) for j in range(N_COLUMNS)}
        pq.write_table(pa.table({**columns, "y": rng.normal(size=n_rows // N_FILES)}), folder / f"{number}.parquet")


def main(n_rows: int) -> None:
    """Write files in another process, so that its memory does not count, then measure."""
    with scratch_folder() as folder:
        (folder / "in").mkdir()
        (folder / "store").mkdir()
        writer = multiprocessing.get_context("spawn").Process(target=write_files, args=(folder / "in", n_rows))
        writer.start()
        writer.join()
        before, times = peak(), [time.process_time()]
        rows = training_source(as_source(folder / "in"), "y")
        stored = build_store(rows, folder / "store", notify=lambda text: times.append(time.process_time()))
        for name, start, stop in (("pass 1", 0, 1), ("pass 2 and sort", 1, 2), ("both", 0, 2)):
            seconds = times[stop] - times[start]
            print(f"{name}: {seconds:.1f} s, {n_rows / seconds:,.0f} rows/s")
        print(f"{stored.store.n_bytes / 1e6:,.0f} MB on disk in {stored.store.n_buckets} buckets")
        print(f"peak of memory {peak() - before:,.0f} MB beyond {before:,.0f} MB before")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
