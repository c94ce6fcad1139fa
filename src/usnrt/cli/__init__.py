"""The ``usnrt`` command: from a table in a file to a model, predictions and a report."""

import sys
from importlib.util import find_spec

REQUIRED = "pyarrow", "rich", "typer"


def main() -> int:
    """Entry point of the ``usnrt`` command."""
    missing = [name for name in REQUIRED if find_spec(name) is None]
    if missing:
        print(f"usnrt: the command needs {missing[0]}: pip install 'usnrt[cli]'", file=sys.stderr)
        return 1
    from usnrt.cli._process import TERMINATED, light_imports, termination_as_interrupt

    with light_imports(uses_pandas="compare" in sys.argv[1:2]), termination_as_interrupt() as received:
        from usnrt.cli import _run

        code = _run.run(sys.argv[1:])
        return TERMINATED if received and code == _run.STOPPED else code
