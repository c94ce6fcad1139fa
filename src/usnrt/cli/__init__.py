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
    from usnrt.cli import _run
    from usnrt.cli._light_imports import light_imports
    from usnrt.cli._termination import TERMINATED, termination_as_interrupt

    with light_imports(uses_pandas="compare" in sys.argv[1:2]), termination_as_interrupt() as received:
        code = _run.run(sys.argv[1:])
    return TERMINATED if received and code == _run.STOPPED else code
