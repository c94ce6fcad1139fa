"""What each command says when something is wrong: one sentence, no traceback, a useful exit code."""

import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest


def refused(run, sentence, code=1):
    """The run said exactly this on stderr, nothing on stdout."""
    assert (run.stderr, run.stdout, run.returncode) == (f"usnrt: {sentence}\n", "", code)


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


CSV = "a,price\n1,2\n3,4\n"
TARGET = "the target 'price' must"
NO_MODEL = "is not a model file that can be loaded:"
KINDS = "must be a .csv, .tsv, .parquet, .feather, .jsonl or .xlsx file (also with .gz, .bz2 or .zst), got the ending"


@pytest.mark.parametrize(
    ("name", "content", "arguments", "sentence"),
    [
        ("empty.csv", "", [], "empty.csv is empty"),
        ("head.csv", "a,price\n", [], "head.csv has no rows"),
        ("one.csv", "a,price\n1,2\n", [], "USNRTRegressor needs at least 2 rows, got n_samples=1"),
        ("d.doc", "x", [], f"d.doc {KINDS} '.doc'"),
        ("d.xlsx", "x", [], "d.xlsx cannot be read: it is no workbook (File is not a zip file)"),
        ("d", "x", [], f"d {KINDS} ''"),
        ("d.csv", "a,prise\n1,2\n", [], "d.csv has no column 'price'; did you mean 'prise'?"),
        ("d.csv", "a,b\n1,2\n", [], "d.csv has no column 'price'; its columns are a, b"),
        ("d.csv", "a,price\n1,2\n3,x\n", [], "the target 'price' must hold numbers, got 'x' in row 2 of d.csv"),
        ("d.csv", "a,price\n1,\n3,NA\n", [], "the target 'price' has no value in any row of d.csv"),
        (
            "d.csv", "a,price\n1,2\n3\n", [],
            "d.csv cannot be read: line 3 has 1 value, but the first line has 2 column names (separator ',')",
        ),
        ("d.csv", "a,price\n1,2\n3,inf\n", [], f"{TARGET} be finite, got infinity in row 2 of d.csv"),
        ("d.csv", "a,price\n1,\n3,2\n5,inf\n", [], f"{TARGET} be finite, got infinity in row 3 of d.csv"),
        ("d.csv", "price\n1\n2\n", [], "d.csv must have columns besides the target, got none"),
        ("d.csv", "a,a,price\n1,2,3\n", [], "d.csv must have unique column names, got 'a' twice"),
        ("d.csv", CSV, ["--drop", "z"], "d.csv has no column 'z'; its columns are a, price"),
        ("d.csv", CSV, ["--drop", "price"], "'price' is the target and cannot be left out"),
        ("d.csv", CSV, ["--holdout", "1.5"], "--holdout must be in [0, 1), got 1.5"),
        ("d.csv", CSV, ["--preset", "fast", "--paper"], "--preset fast does not apply to --paper"),
        (
            "d.csv", CSV, ["--preset", "ensemble", "--members", "1"],
            "--preset ensemble needs --members of at least 2, got 1",
        ),
        ("d.csv", CSV, ["--set", "alpha=7"], "alpha must be in (0, 1), got 7"),
        ("d.csv", CSV, ["--categorical", "z"], "categorical_features must name a column of X, but 'z' is not one"),
        ("d.csv", "a,price\n1,2\ninf,4\n", [], "X must be finite, but column 'a' holds infinity"),
        ("d.csv", CSV, ["-o", "nowhere/m.usnrt"], "the folder nowhere does not exist"),
        ("d.csv", CSV, ["-o", "."], ". is a directory, not a file to write"),
    ],
)  # fmt: skip
def test_fit_on_bad_tables_and_options(tmp_path, name, content, arguments, sentence, inside):
    write(tmp_path / name, content)
    refused(inside("fit", name, "-t", "price", "-q", *arguments, cwd=tmp_path), sentence)
    assert os.listdir(tmp_path) == [name]


def test_a_process_of_its_own_says_the_same(tmp_path, usnrt):
    refused(usnrt("fit", "missing.csv", "-t", "price", cwd=tmp_path), "missing.csv does not exist")
    assert os.listdir(tmp_path) == []


def test_long_values_are_shortened(tmp_path, inside):
    """Found with damaged files: a message of a megabyte, and an error of Python's reader of CSV files."""
    write(tmp_path / "d.csv", "a,price\n1,2\n3," + "9" * 200_000 + "x\n")
    shown = f"'{'9' * 56}...' (200,001 characters)"
    refused(
        inside("fit", "d.csv", "-t", "price", cwd=tmp_path),
        f"the target 'price' must hold numbers, got {shown} in row 2 of d.csv",
    )
    write(tmp_path / "d.csv", "a,price\n" + "9" * 200_000 + ",2\n3,4,5\n")
    run = inside("fit", "d.csv", "-t", "price", cwd=tmp_path)
    assert (run.returncode, len(run.stderr.splitlines())) == (1, 1)
    # pyarrow numbers rows only where one thread parses
    pattern = r"usnrt: d.csv cannot be read: CSV parse error: (Row #3: )?Expected 2 columns, got 3"
    assert re.match(pattern, run.stderr)
    write(tmp_path / "d.csv", "a" * 200_000 + ",b\n1,2\n")
    run = inside("fit", "d.csv", "-t", "price", cwd=tmp_path)
    message = run.stderr.splitlines()[-1]  # after what was found about the file
    assert message.startswith("usnrt: d.csv has no column 'price'")
    assert len(message) < 2100


def test_a_read_only_folder_is_noticed_before_the_fit(tmp_path, inside, monkeypatch):
    write(tmp_path / "d.csv", CSV)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # as for a file system mounted read-only
    refused(
        inside("fit", "d.csv", "-t", "price", "-o", tmp_path / "m.usnrt", cwd=tmp_path),
        f"{tmp_path / 'm.usnrt'} cannot be written: the folder {tmp_path} is read-only",
    )


def test_a_directory(tmp_path, inside):
    (tmp_path / "d.csv").mkdir()
    refused(inside("fit", "d.csv", "-t", "a", cwd=tmp_path), "the folder d.csv has no .parquet, .csv or .tsv file")


def test_damaged_parquet_and_gzip(tmp_path, inside):
    write(tmp_path / "d.parquet", "not parquet at all, but long enough")
    run = inside("fit", "d.parquet", "-t", "a", cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("usnrt: d.parquet cannot be read: ")
    assert len(run.stderr.splitlines()) == 1
    write(tmp_path / "d.csv.gz", b"\x1f\x8b\x08\x00 broken")
    run = inside("fit", "d.csv.gz", "-t", "a", cwd=tmp_path)
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1


def test_unknown_parameter(tmp_path, inside):
    write(tmp_path / "d.csv", CSV)
    run = inside("fit", "d.csv", "-t", "price", "--set", "aplha=0.1", cwd=tmp_path)
    assert run.stderr.startswith(
        "usnrt: --set must be name=value with a parameter's name, got 'aplha=0.1'; names: alpha, "
    )


def test_two_gigabytes_of_nothing(tmp_path, usnrt):
    with (tmp_path / "nothing.csv").open("wb") as file:
        file.truncate(2**31)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))

    run = usnrt("fit", "nothing.csv", "-t", "a", cwd=tmp_path, preexec_fn=limit)
    assert run.returncode == 1
    assert run.stderr.startswith("usnrt: nothing.csv cannot be read: ")
    assert len(run.stderr.splitlines()) == 1
    os.rename(tmp_path / "nothing.csv", tmp_path / "nothing.usnrt")
    sentence = "nothing.usnrt is not a model file that can be loaded: it is not a zip archive"
    refused(usnrt("info", "nothing.usnrt", cwd=tmp_path, preexec_fn=limit), sentence)


def test_latin_1_semicolons_and_missing_targets_are_told(tmp_path, inside):
    rows = "".join(f"{i % 7};{'Köln' if i % 2 else 'Paris'};{i if i % 10 else ''}\n" for i in range(60))
    write(tmp_path / "d.csv", ("größe;ort;preis\n" + rows).encode("latin-1"))
    run = inside("fit", "d.csv", "-t", "preis", "--set", "max_epochs=2", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = "separator ';' and encoding latin-1 (--sep, --encoding overrule this)"
    assert f"usnrt: d.csv was read with {found}\n" in run.stderr
    assert "usnrt: 6 rows without a target were left out\n" in run.stderr
    run = inside("info", "d.usnrt", "--json", cwd=tmp_path)
    assert '"größe (number)"' in run.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["predict", "no.usnrt", "test.csv"], "no.usnrt does not exist"),
        (["predict", "test.csv", "test.csv"], f"test.csv {NO_MODEL} it is not a zip archive"),
        (["predict", "model.usnrt", "no.csv"], "no.csv does not exist"),
        (["predict", "model.usnrt", "less.csv"], "less.csv must have the columns that the model was fitted on"),
        (["predict", "model.usnrt", "text.csv"], "column 'area' must hold numbers as in fit, but it holds text"),
        (["predict", "model.usnrt", "test.csv", "--keep", "z"], "test.csv has no column 'z' to keep"),
        (["predict", "model.usnrt", "test.csv", "--coverage", "90"], "--coverage must be in (0, 1), got 90"),
        (["predict", "model.usnrt", "test.csv", "-o", "out.doc"], f"out.doc {KINDS} '.doc'"),
        (["predict", "model.usnrt", "test.csv", "-o", "train.csv"], "train.csv exists already; --force overwrites it"),
        (["predict", "model.usnrt", "test.csv", "-o", "test.csv", "--force"], "test.csv is read by this command"),
        (["calibrate", "model.usnrt", "test.csv", "-o", "model.usnrt", "-f"], "model.usnrt is read by this command"),
        (["export", "model.usnrt", "--text", "model.usnrt", "--force"], "model.usnrt is read by this command"),
        (["fit", "train.csv", "--target", "y", "-o", "train.csv", "--force"], "train.csv is read by this command"),
        (["report", "model.usnrt", "test.csv", "-o", "test.csv", "--force"], "test.csv is read by this command"),
        (["evaluate", "model.usnrt", "bare.csv"], "bare.csv has no column 'price'; its columns are id, area, district"),
        (["evaluate", "model.usnrt", "test.csv", "-t", "district"], "the target 'district' must hold numbers"),
        (["report", "model.usnrt", "test.csv", "-o", "train.csv"], "train.csv exists already; --force overwrites it"),
        (["export", "model.usnrt"], "export needs --onnx, --dot or --text with a file to write"),
        (["explain", "."], f". {NO_MODEL} it is a directory"),
    ],
)  # fmt: skip
def test_commands_on_bad_input(fitted, arguments, sentence, inside):
    folder, _ = fitted
    table = pa_csv.read_csv(folder / "test.csv")
    pa_csv.write_csv(table.drop_columns(["area"]), folder / "less.csv")
    pa_csv.write_csv(table.drop_columns(["price"]), folder / "bare.csv")
    text = pa.array(["big"] * 300)
    pa_csv.write_csv(table.set_column(table.column_names.index("area"), "area", text), folder / "text.csv")
    run = inside(*arguments, cwd=folder)
    assert run.returncode == 1
    assert run.stderr.startswith(f"usnrt: {sentence}")
    assert len(run.stderr.splitlines()) == 1
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "d.csv"], "Missing option '--target' / '-t'. (usnrt --help shows how)"),
        (["fit", "d.csv", "-t", "a", "--seed", "x"], "Invalid value for '--seed'"),
        (["fit", "d.csv", "-t", "a", "--nonsense"], "No such option"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_wrong_command_lines(tmp_path, arguments, sentence, inside):
    run = inside(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith(f"usnrt: {sentence}")
    assert len(run.stderr.splitlines()) == 1


def test_a_terminal_is_asked_before_overwriting(fitted):
    folder, _ = fitted
    (folder / "old.csv").write_text("old")
    command = [sys.executable, "-m", "usnrt.cli", "predict", "model.usnrt", "test.csv", "-o", "old.csv"]
    for answer, expected, code in ((b"n\n", "old", 130), (b"y\n", '"mean"', 0)):
        parent, child = pty.openpty()
        with subprocess.Popen(command, cwd=folder, stdin=child, stdout=child, stderr=subprocess.PIPE) as process:
            os.close(child)
            os.write(parent, answer)
            said = process.stderr.read().decode()
            assert process.wait() == code
        os.close(parent)
        assert "old.csv exists already. Overwrite it? [y/N]" in said
        assert (folder / "old.csv").read_text().startswith(expected)


def no_override(command):
    """The command without root's right to write everywhere."""
    if os.geteuid() != 0:
        return command
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere and setpriv, which could take that away, is not installed")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]


def test_no_permission_to_write(fitted, tmp_path):
    folder, _ = fitted
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    arguments = ["predict", folder / "model.usnrt", folder / "test.csv", "-o", locked / "out.csv"]
    command = no_override([sys.executable, "-m", "usnrt.cli", *map(str, arguments)])
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == f"usnrt: {locked}/out.csv cannot be written: the folder {locked} is read-only\n"
    assert len(run.stderr.splitlines()) == 1
    assert os.listdir(locked) == []


def test_no_permission_to_read(tmp_path):
    write(tmp_path / "d.csv", CSV)
    (tmp_path / "d.csv").chmod(0)
    command = no_override([sys.executable, "-m", "usnrt.cli", "fit", "d.csv", "-t", "price"])
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr.lower().startswith("usnrt: permission denied")
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk(fitted, usnrt):
    folder, _ = fitted
    (folder / "full.csv").unlink(missing_ok=True)
    (folder / "full.csv").symlink_to("/dev/full")
    run = usnrt("predict", "model.usnrt", "test.csv", "-o", "full.csv", cwd=folder)
    refused(run, "no space left on device: full.csv")


def test_a_disk_that_fills_up_leaves_the_old_file(fitted, tmp_path, usnrt):
    folder, _ = fitted
    (tmp_path / "out.csv").write_text("old")

    def limit():  # the kernel refuses to write more than this into any file
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    run = usnrt(
        *("predict", folder / "model.usnrt", folder / "test.csv", "-o", tmp_path / "out.csv", "--force"),
        preexec_fn=limit,
        env={"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == f"usnrt: file too large: {tmp_path}/out.csv"
    assert (tmp_path / "out.csv").read_text() == "old"
    assert [name for name in os.listdir(tmp_path) if "part" in name] == []


def test_ctrl_c_in_the_middle(tmp_path, houses):
    pa_csv.write_csv(houses(4000, 0), tmp_path / "d.csv")
    command = [sys.executable, "-m", "usnrt", "fit", "d.csv", "-t", "price", "--drop", "id", "-o", "m.usnrt"]
    command += ["--set", "max_epochs=100000", "--set", "verbose=2"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while ": epoch " not in process.stderr.readline():
            assert time.monotonic() < deadline
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert rest.splitlines()[-1] == "usnrt: stopped; nothing was written"
    assert "Traceback" not in rest
    assert os.listdir(tmp_path) == ["d.csv"]


def test_a_reader_that_has_seen_enough(fitted):
    folder, _ = fitted
    command = f"{sys.executable} -m usnrt.cli predict model.usnrt test.csv --json | head -n 1"
    run = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[\n", "")


def test_an_output_is_never_an_input_whatever_its_name(tmp_path):
    from usnrt.cli._output import UserError, check_writable

    folder = tmp_path / "sales"
    folder.mkdir()
    table, link = folder / "a.csv", tmp_path / "link.csv"
    table.write_text("x\n1\n")
    link.symlink_to(table)
    for source in (table, link, folder, folder / "*.csv", folder / ".." / "sales" / "a.csv"):
        with pytest.raises(UserError, match=r"a\.csv is read by this command and cannot be its output too"):
            check_writable(table, True, None, source)
    (folder / "page.html").write_text("")
    check_writable(folder / "page.html", True, folder)  # not a table: not read
    check_writable(folder / "b.csv", True, table)
    check_writable(table, True, Path("-"))


def test_control_characters_of_a_file_do_not_reach_the_terminal(inside, tmp_path):
    name, label = "a\x1b]0;title\x07", "\u202eb\x9b2J"
    rows = "".join(f"{i % 7},{label if i % 2 else 'c'},{i % 5}\n" for i in range(80))
    write(tmp_path / "t.csv", f"{name},kind\x1b[31m,price\n{rows}")
    fit = ("fit", "t.csv", "--target", "price", "--output", "m.usnrt", "--set", "max_epochs=2", "--set", "hidden=4")
    runs = [
        inside("fit", "t.csv", "--target", "nothing", "--output", "m.usnrt", cwd=tmp_path),
        inside(*fit, cwd=tmp_path),
    ]
    for command in (("info",), ("info", "--json"), ("explain",), ("explain", "t.csv", "--rows", "1")):
        runs.append(inside(command[0], "m.usnrt", *command[1:], cwd=tmp_path))
    assert [run.returncode for run in runs] == [1, 0, 0, 0, 0, 0], runs
    shown = "".join(run.stdout + run.stderr for run in runs)
    assert r"a\x1b]0;title\x07" in shown
    assert all(letter == "\n" or letter.isprintable() for letter in shown)
