"""The commands that explain, report, export and show."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from usnrt.cli._app import Coverage, Data, Force, Json, Model, Quiet, app
from usnrt.cli._errors import UserError
from usnrt.cli._output import may_write, notice, print_json, print_table, region_table, results_noticed, silent
from usnrt.utils.whole_file import whole_file


@app.command()
def explain(model: Model, as_json: Json = False) -> None:
    """Show the rules of a model's regions and where it is unsure."""
    from usnrt.cli._data import load_model
    from usnrt.estimators.regions import ratio_sentence, region_rows, uncertainty_ratio

    fitted = load_model(model)
    regions = region_rows(fitted)
    if not regions:
        raise UserError(f"{model} has no regions to explain: it is a {type(fitted).__name__}")
    ratio = uncertainty_ratio(fitted)
    if as_json:
        print_json({"target": getattr(fitted, "target_name_", None), "regions": regions, "ratio": ratio})
        return
    print_table(region_table(regions), title="Regions, the least certain first")
    if ratio_sentence(ratio):
        print(ratio_sentence(ratio))


@app.command()
def report(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column with the truth; default: as in fit.")
    ] = None,
    coverage: Coverage = 0.9,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a page about a model: how good it is, where it is unsure and why."""
    from usnrt.cli._data import judged_data, load_model
    from usnrt.report import write_report

    if not 0 < coverage < 1:
        raise UserError(f"--coverage must be in (0, 1), got {coverage:g}")
    may_write(output, force)
    fitted = load_model(model)
    say = silent if quiet else notice
    X, y = judged_data(fitted, data, target, say)
    command = f"usnrt report {model} {data} -o {output}"
    with results_noticed(say):
        write_report(fitted, X, y, output, coverage=coverage, source=str(data), command=command)
    print(f"wrote {output}")


@app.command()
def export(
    model: Model,
    onnx: Annotated[Path | None, typer.Option("--onnx", help="Write the model as ONNX.")] = None,
    dot: Annotated[Path | None, typer.Option("--dot", help="Write the tree in Graphviz's language.")] = None,
    text: Annotated[Path | None, typer.Option("--text", help="Write the tree as text.")] = None,
    force: Force = False,
) -> None:
    """Write a model in another format."""
    from usnrt.cli._data import load_model
    from usnrt.tree.rules import export_graphviz, export_text

    outputs = [path for path in (onnx, dot, text) if path is not None]
    if not outputs:
        raise UserError("export needs --onnx, --dot or --text with a file to write")
    for path in outputs:
        may_write(path, force)
    fitted = load_model(model)
    if onnx is not None:
        if not hasattr(fitted, "to_onnx"):
            raise UserError(f"a {type(fitted).__name__} cannot be exported to ONNX")
        fitted.to_onnx(onnx)
    if (dot or text) and not hasattr(fitted, "tree_"):
        raise UserError(f"a {type(fitted).__name__} has no tree to export")
    for written, write in ((dot, export_graphviz), (text, export_text)):
        if written is not None:
            with whole_file(written) as file:
                file.write((write(fitted) + "\n").encode())
    print("\n".join(f"wrote {path}" for path in outputs))


@app.command()
def info(
    model: Annotated[Path | None, typer.Argument(help="A model file; without one, about the installation.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a model file holds, or what is installed."""
    facts = _installation() if model is None else _model_facts(model)
    if as_json:
        print_json(facts)
    else:
        print_table([{"": name, "value": _shown(value)} for name, value in facts.items()])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item!r}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _model_facts(path: Path) -> dict[str, Any]:
    from usnrt.cli._data import load_model
    from usnrt.persistence import read_manifest

    model = load_model(path)
    manifest = read_manifest(path)
    defaults = type(model)().get_params(deep=False)
    changed = {k: v for k, v in model.get_params(deep=False).items() if v != defaults[k] and k != "verbose"}
    encoder = model.encoder_
    return {
        "file": str(path),
        "class": manifest["class"],
        "written by": f"usnrt {manifest['library']}",
        "format version": manifest["version"],
        "size in bytes": path.stat().st_size,
        "target": getattr(model, "target_name_", None),
        "features": [f"{n} ({t})" for n, t in zip(encoder.source_names_, encoder.source_types_)],
        "regions": getattr(model, "n_leaves_", None),
        "parameters that differ from the defaults": changed,
    }


def _installation() -> dict[str, Any]:
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from usnrt._version import __version__

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    packages = ("jax", "numba", "numpy", "scikit-learn", "pyarrow", "matplotlib", "jinja2", "onnxruntime")
    facts = {"usnrt": __version__, "python": platform.python_version(), "cores": os.cpu_count()}
    return facts | {package: of(package) for package in packages}


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("demo-output"),
) -> None:
    """Fit on made-up data with known noise and compare what was found with the truth."""
    from usnrt.demo import run as run_demo

    run_demo(output)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Run the paper's experiments again and compare (usnrt bench --help)."""
    try:
        from usnrt.bench.cli import bench_app
    except ImportError as error:
        raise UserError(f"the benchmarks cannot run: {error}") from None
    from typer.main import get_command

    result = get_command(bench_app).main(context.args, prog_name="usnrt bench", standalone_mode=False)
    sys.stdout.flush()
    if isinstance(result, int) and result:
        raise typer.Exit(result)
