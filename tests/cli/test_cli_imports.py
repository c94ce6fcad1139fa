"""Commands import what they use: most of the time of a short command is that of imports."""

import subprocess
import sys

import pytest

from usnrt.cli._process import light_imports

HEAVY = {
    "jax", "optax", "numba", "sklearn", "scipy", "scipy.stats", "pandas", "polars", "pyarrow", "matplotlib", "jinja2",
    "onnx", "fastapi", "dask",
}  # fmt: skip
MODEL = {"numba", "sklearn", "scipy", "pyarrow"}  # what it takes to load a model and to read a table


def imported_by(*arguments, cwd=None):
    """The heavy packages, and the number of modules, that a command has imported when it ends."""
    script = (
        "import sys\nfrom usnrt.cli import main\nsys.argv[0] = 'usnrt'\ncode = main()\n"
        f"print(len(sys.modules), *sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)\nsys.exit(code)"
    )
    command = [sys.executable, "-c", script, *map(str, arguments)]
    run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    number, *names = run.stderr.splitlines()[-1].split()
    return set(names), int(number)


@pytest.mark.parametrize("arguments", ["--version", "--help", "fit --help", "predict --help", "compare --help"])
def test_help_imports_numpy_and_typer_only(arguments):
    names, number = imported_by(*arguments.split())
    assert names == set()
    assert number < 900


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ("predict model.usnrt test.csv --output predicted.csv --force", set()),
        ("evaluate model.usnrt test.csv", set()),
        ("info model.usnrt", set()),
        ("explain model.usnrt test.csv --rows 1", set()),
        ("export model.usnrt --text tree.txt --force", set()),
        ("report model.usnrt test.csv --output report.html --force", {"jinja2", "scipy.stats"}),
    ],
)
def test_commands_on_a_model_import_no_jax(fitted, arguments, more):
    names, _ = imported_by(*arguments.split(), cwd=fitted[0])
    assert names <= MODEL | more


def test_a_deferred_module_is_imported_when_used():
    script = (
        "import sys\nfrom usnrt.cli._process import light_imports\nwith light_imports():\n"
        "    import scipy.stats as stats\n    assert 'scipy.stats._distn_infrastructure' not in sys.modules\n"
        "    print(stats.norm.ppf(0.5))\n    from scipy.stats import norm\n    print(norm.cdf(0.0))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.split() == ["0.0", "0.5"], run.stderr


def test_pandas_is_hidden_for_the_time_of_a_command():
    script = (
        "import sys\nfrom usnrt.cli._process import light_imports\n"
        "with light_imports():\n    try:\n        import pandas\n    except ModuleNotFoundError as error:\n"
        "        print(error)\nwith light_imports(uses_pandas=True):\n    import pandas\nprint(pandas.__name__)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.splitlines() == ["pandas is hidden from this command", "pandas"], run.stderr


def test_modules_imported_before_are_left_alone():
    import scipy.stats

    with light_imports():
        assert sys.modules["scipy.stats"] is scipy.stats
    assert sys.modules["scipy.stats"] is scipy.stats
