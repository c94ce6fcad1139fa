"""``usnrt serve``: models over HTTP, with a what-if page."""

import os
from pathlib import Path
from typing import Annotated

import typer

from usnrt.cli._output import UserError, notice, say


def serve(
    models: Annotated[
        list[Path], typer.Argument(help="Model files; a model is named by the stem of its file.", readable=False)
    ],
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="A file with the token that requests need; default: $USNRT_TOKEN, or none."),
    ] = None,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Most rows of a request.", min=1)] = 10_000,
    max_bytes: Annotated[int, typer.Option("--max-bytes", help="Largest body of a request.", min=1)] = 10_000_000,
    timeout: Annotated[float, typer.Option(help="Seconds for a body to arrive, and for its predictions.")] = 30.0,
    threads: Annotated[int, typer.Option(help="Predictions that run at the same time.", min=1)] = 2,
    neighbors: Annotated[
        bool, typer.Option("--neighbors", help="Show similar training rows in explanations, with their targets.")
    ] = False,
) -> None:
    """Serve models over HTTP: predictions of JSON or CSV rows, and a what-if page.

    POST /models/NAME/predict, GET /openapi.json, /models/NAME, /metrics, /health. POST /reload, or SIGHUP, loads files
    that have changed.
    """
    try:
        from usnrt.serve import Limits, ModelStore, create_app
        from usnrt.serve._server import LOOPBACK, listen, run
    except ImportError as error:
        raise UserError(str(error)) from None
    if not timeout > 0:
        raise UserError(f"--timeout must be positive, got {timeout:g}")
    for path in models:
        if not path.exists():
            raise UserError(f"{path} does not exist")
    token = _token(token_file)
    is_local = host in LOOPBACK
    limits = Limits(body_bytes=max_bytes, rows=max_rows, seconds=timeout, threads=threads, neighbors=neighbors)
    with listen(host, port) as listening:  # first: a port in use is found before models are loaded
        app = create_app(ModelStore(models), token=token, limits=limits, hosts=LOOPBACK if is_local else None)
        if not is_local and token is None:
            notice(f"anyone who reaches {host} can use the service; --token-file or $USNRT_TOKEN sets a token")
        shown = f"[{host}]" if ":" in host else host
        names = ", ".join(path.stem for path in models)
        say(f"serving {names} at http://{shown}:{listening.getsockname()[1]}/ (Ctrl-C stops)")
        run(app, listening, notice)


def _token(path: Path | None) -> str | None:
    """The token of a file, or of the environment; a command line would show it to other users."""
    text = os.environ.get("USNRT_TOKEN", "") if path is None else path.read_text(encoding="utf-8")
    token = text.strip()
    if path is not None and not token:
        raise UserError(f"{path} must hold a token, but it is empty")
    if not token.isascii() or any(letter.isspace() for letter in token):
        raise UserError("the token must be ASCII without spaces")
    return token or None
