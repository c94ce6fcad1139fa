"""``python -m usnrt.bench``: the same as ``usnrt bench``."""

from usnrt.bench.cli import bench_app

if __name__ == "__main__":
    bench_app(prog_name="usnrt bench")
