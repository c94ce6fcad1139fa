"""Runs a command and turns any error into a one-line message and an exit code.

0 success; 1 invalid data, file or model; 2 invalid command line; 70 a bug in the library; 130 stopped by the user.
"""

import os
import shlex
import sys

from usnrt.cli._output import UserError
from usnrt.utils.names import escaped_lines

OK, FAILED, USAGE, BUG, STOPPED = 0, 1, 2, 70, 130
MAX_SENTENCE = 2000


def run(arguments: list[str]) -> int:
    """Run the command with these arguments; returns the exit code."""
    import typer
    from typer.main import get_command

    from usnrt.cli._app import app

    command = shlex.join(["usnrt", *arguments])  # commands find it in their context
    try:
        result = get_command(app).main(arguments, prog_name="usnrt", standalone_mode=False, obj=command)
        sys.stdout.flush()
        if result == STOPPED:  # typer turns Ctrl-C into this
            return _fail("stopped; nothing was written", STOPPED)
        return result if isinstance(result, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped; nothing was written", STOPPED)
    except typer.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would report the error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except UserError as error:
        return _fail(str(error), FAILED)
    except OSError as error:
        return _fail(_os_error_message(error), FAILED)
    except MemoryError:
        return _fail("there is not enough memory", FAILED)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own errors: a wrong option, a missing argument
            return _fail(f"{error.format_message()} (usnrt --help shows how)", USAGE)
        if os.environ.get("USNRT_DEBUG"):
            raise
        if isinstance(error, ValueError | TypeError | ImportError):  # raised by the library's own checks
            return _fail(_one_line(error), FAILED)
        return _fail(
            f"a bug in usnrt, please report it: {type(error).__name__}: {_one_line(error)} "
            "(set USNRT_DEBUG=1 to see where)",
            BUG,
        )


def _fail(sentence: str, code: int) -> int:
    if len(sentence) > MAX_SENTENCE:  # names of columns may have any length
        sentence = f"{sentence[: MAX_SENTENCE // 2]} ... {sentence[-MAX_SENTENCE // 2 :]}"
    print(f"usnrt: {escaped_lines(sentence)}", file=sys.stderr)
    return code


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _os_error_message(error: OSError) -> str:
    """For example "no such file or directory: data.csv"."""
    if error.errno is None or error.strerror is None:
        return _one_line(error)
    name = f": {error.filename}" if error.filename is not None else ""
    return f"{error.strerror[0].lower()}{error.strerror[1:]}{name}"
