"""``python -m usnrt_experiments``: the commands of `usnrt_experiments.cli`."""

from usnrt_experiments.cli import app

if __name__ == "__main__":
    app(prog_name="python -m usnrt_experiments")
