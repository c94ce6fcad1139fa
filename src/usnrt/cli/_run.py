"""Runs a command and turns whatever goes wrong into one sentence and an exit code.

0 all went well; 1 the data, a file or the model was not as needed; 2 the command line was wrong;
70 a defect of the library; 130 stopped by the user.
"""

import os
import sys

from usnrt.cli._errors import UserError

OK, FAILED, USAGE, DEFECT, STOPPED = 0, 1, 2, 70, 130


def run(arguments: list[str]) -> int:
    """Run the command with these arguments; returns the exit code."""
    import typer
    from typer.main import get_command

    from usnrt.cli._app import app

    try:
        result = get_command(app).main(arguments, prog_name="usnrt", standalone_mode=False)
        sys.stdout.flush()
        if result == STOPPED:  # typer turns Ctrl-C into this
            return _say("stopped; nothing was written", STOPPED)
        return result if isinstance(result, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        return _say("stopped; nothing was written", STOPPED)
    except typer.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except UserError as error:
        return _say(str(error), FAILED)
    except OSError as error:
        return _say(_os_sentence(error), FAILED)
    except MemoryError:
        return _say("there is not enough memory", FAILED)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own errors: a wrong option, a missing argument
            return _say(f"{error.format_message()} (usnrt --help shows how)", USAGE)
        if os.environ.get("USNRT_DEBUG"):
            raise
        if isinstance(error, ValueError | TypeError | ImportError):  # the library's own sentences
            return _say(_one_line(error), FAILED)
        return _say(
            f"a defect of usnrt, please report it: {type(error).__name__}: {_one_line(error)} "
            "(set USNRT_DEBUG=1 to see where)",
            DEFECT,
        )


def _say(sentence: str, code: int) -> int:
    print(f"usnrt: {sentence}", file=sys.stderr)
    return code


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _os_sentence(error: OSError) -> str:
    """E.g. "no such file or directory: data.csv"."""
    if error.errno is None or error.strerror is None:
        return _one_line(error)
    name = f": {error.filename}" if error.filename is not None else ""
    return f"{error.strerror[0].lower()}{error.strerror[1:]}{name}"
