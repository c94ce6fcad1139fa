"""Commands of the tutorials: run when the site is built, shown as in a terminal."""

import contextlib
import io
import os
import re
import shlex

# What `usnrt fit` reports while it runs: on a terminal a bar, and times that differ from build to build.
PROGRESS = re.compile(r"the first fit on this machine|fitted \d+ regions? in|(all|a part of) [\d,]+ rows: ")


def terminal(*commands, folder, stderr=True):
    """Run ``usnrt`` commands in this folder and return them with their output, as Markdown.

    They run in this process, by the function that the program ``usnrt`` calls. A command that fails is an error.
    """
    from usnrt.cli._run import run

    lines = []
    for command in commands:
        program, *arguments = shlex.split(command.replace("\\\n", " "))
        if program != "usnrt":
            raise ValueError(f"command must be of usnrt, got {command!r}")
        output, notices = io.StringIO(), io.StringIO()
        streams = contextlib.redirect_stdout(output), contextlib.redirect_stderr(output if stderr else notices)
        with _width(100), contextlib.chdir(folder), streams[0], streams[1]:
            code = run(arguments)
        if code != 0:
            raise RuntimeError(f"{command!r} failed with code {code}: {output.getvalue()}{notices.getvalue()}")
        kept = [line.rstrip() for line in output.getvalue().splitlines() if not PROGRESS.match(line)]
        lines.append("\n".join([f"$ {command}", *kept]).rstrip())
    return "```console\n" + "\n".join(lines) + "\n```\n"


@contextlib.contextmanager
def _width(columns):
    """Let rich write lines of this length, without colours."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(columns)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
