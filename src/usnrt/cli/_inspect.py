"""``usnrt export`` and ``info``: the contents of a model file in several formats."""

from pathlib import Path
from typing import Annotated, Any

import typer

from usnrt.cli._options import Force, Json, Model
from usnrt.cli._output import (
    UserError,
    check_writable,
    is_standard,
    messages_to_stderr,
    print_json,
    print_table,
    say,
    shown,
    write_output,
    written_path,
)


def export(
    model: Model,
    onnx: Annotated[Path | None, typer.Option("--onnx", help="Write the model as ONNX.")] = None,
    dot: Annotated[Path | None, typer.Option("--dot", help="Write the tree as Graphviz DOT.")] = None,
    text: Annotated[Path | None, typer.Option("--text", help="Write the tree as text.")] = None,
    force: Force = False,
) -> None:
    """Export a model to other formats."""
    from usnrt.cli._data import load_model
    from usnrt.tree.rules import export_graphviz, export_text

    outputs = [path for path in (onnx, dot, text) if path is not None]
    if not outputs:
        raise UserError("export needs --onnx, --dot or --text with a file to write")
    if sum(is_standard(path) for path in outputs) > 1:
        raise UserError("only one output can be standard output (-)")
    for path in outputs:
        check_writable(path, force, model)
    fitted = load_model(model)
    if onnx is not None:
        if not hasattr(fitted, "to_onnx"):
            raise UserError(f"a {type(fitted).__name__} cannot be exported to ONNX")
        with written_path(onnx) as path:
            fitted.to_onnx(path)
    if (dot or text) and not hasattr(fitted, "tree_"):
        raise UserError(f"a {type(fitted).__name__} has no tree to export")
    for written, write in ((dot, export_graphviz), (text, export_text)):
        if written is not None:
            write_output(written, (write(fitted) + "\n").encode())
    with messages_to_stderr(*outputs):
        say("\n".join(f"wrote {path}" for path in outputs))


def info(
    model: Annotated[Path | None, typer.Argument(help="A model file; default: describe the installation.")] = None,
    as_json: Json = False,
) -> None:
    """Describe a model file, or the installation."""
    from usnrt.cli._data import model_file

    if model is None:
        facts = _installation()
    else:
        with model_file(model) as file:
            facts = _model_facts(file, shown(model))
    if as_json:
        print_json(facts)
    else:
        print_table([{"": name, "value": _shown(value)} for name, value in facts.items()])


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item!r}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _model_facts(path: Path, name: str) -> dict[str, Any]:
    from usnrt.cli._data import load_model
    from usnrt.estimators.regions import has_examples, rows_in_memory
    from usnrt.persistence import read_manifest

    model = load_model(path, name)
    manifest = read_manifest(path)
    defaults = type(model)().get_params(deep=False)
    changed = {k: v for k, v in model.get_params(deep=False).items() if v != defaults[k] and k != "verbose"}
    encoder = model.encoder_
    return {
        "file": name,
        "class": manifest["class"],
        "written by": f"usnrt {manifest['library']}",
        "format version": manifest["version"],
        "size in bytes": path.stat().st_size,
        "target": model.target_name_,
        "features": [f"{n} ({t})" for n, t in zip(encoder.source_names_, encoder.source_types_)],
        "file format": _reading_facts(encoder),
        "regions": getattr(model, "n_leaves_", None),
        "training rows in memory": rows_in_memory(model),
        "unmodified training rows": has_examples(model),
        "background of explanations": _background(model),
        "parameters that differ from the defaults": changed,
    }


def _background(model: Any) -> str | None:
    """What explanations compare rows with."""
    background = None if getattr(model, "model_", None) is None else model.model_.kept.background
    if background is None:
        return None
    if not model._model_recipe().tree.memory:
        return "quantiles of each column per region"
    return f"{background.shape[1]} training rows per region, without targets"


def _reading_facts(encoder: Any) -> dict[str, str] | None:
    """How the file was read that the model was fitted on, if the command line has read it."""
    return None if encoder.reading_ is None else {**encoder.reading_, **encoder.date_formats_}


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
