"""The ``usnrt`` command: from a table in a file to a model, predictions and a report."""

import sys


def main() -> int:
    """Entry point of the ``usnrt`` command."""
    try:
        import pyarrow  # noqa: F401
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(f"usnrt: the command needs {error.name}: pip install 'usnrt[cli]'", file=sys.stderr)
        return 1
    from usnrt.cli import _run
    from usnrt.cli._termination import TERMINATED, termination_as_interrupt

    with termination_as_interrupt() as received:
        code = _run.run(sys.argv[1:])
    return TERMINATED if received and code == _run.STOPPED else code
