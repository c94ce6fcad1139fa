"""Damaged CSV files through the reading functions of the command line: a sentence or a sensible table.

    python experiments/hardening/csv_files.py --count 10000

Every cell of the undamaged file is unique, so that a value in a column that it does not belong to is noticed. No case
may raise anything but the errors that the command line prints as a sentence, take longer than 30 s, or shift columns.
Every case is made of one number, which is printed if it fails; ``--first N --count 1`` repeats it.
"""

import tempfile
import traceback
from pathlib import Path

import numpy as np
from cases import run_cases

ROWS = 40
NAMES = ["area", "rooms", "district", "sold", "price"]
ODD = [
    "\x00",
    '"',
    "'",
    ",",
    ";",
    "\t",
    "|",
    "\r",
    "\n",
    "\r\n",
    "\\",
    "\u2028",
    "é",
    "東",
    "\ufeff",
    "=",
    "NaN",
    "1e999",
    "",
]


def cells():
    """Rows of unique cells: numbers, whole numbers, labels, dates, target."""
    start = np.datetime64("2020-01-13")
    return [
        [f"{i + 0.25:.2f}", f"{1000 + i}", f"label {i}", str(start + i), f"{50_000 + i + 0.5:.1f}"] for i in range(ROWS)
    ]


def as_text(rows, separator=",", quote=False, newline="\n"):
    """Rows as the text of a file."""
    shown = [[f'"{cell}"' if quote else cell for cell in row] for row in [NAMES, *rows]]
    return newline.join(separator.join(row) for row in shown) + newline


def harmed_rows(rows, rng):
    """Rows with one kind of damage in their structure: a value too many or too few, a line twice, a huge field."""
    rows, i = [list(row) for row in rows], int(rng.integers(ROWS))
    j, how = int(rng.integers(len(NAMES))), int(rng.integers(8))
    if how == 0:
        del rows[i][j]
    elif how == 1:
        rows[i].insert(j, "additional")
    elif how == 2:
        rows.insert(i, list(rows[i]))
    elif how == 3:
        rows[i][j] = str(rng.choice(["x", "9", " ", "0."])) * int(rng.choice([10_000, 200_000]))
    elif how == 4:
        rows[i] += ["more"] * int(rng.choice([1, 5000]))
    elif how == 5:
        rows[i] = []
    elif how == 6:
        rows[i][j] = str(rng.choice(ODD))
    else:
        rows[i] = rows[i][: int(rng.integers(1, 5))]
    return rows


def harmed_text(text, rng):
    """Text with odd characters put in, or a piece taken out, doubled or moved."""
    for _ in range(int(rng.integers(1, 4))):
        at, how = int(rng.integers(len(text) + 1)), int(rng.integers(4))
        size = int(rng.choice([1, 5, 200]))
        if how == 0:
            text = text[:at] + str(rng.choice(ODD)) + text[at:]
        elif how == 1:
            text = text[:at] + text[at + size :]
        elif how == 2:
            text = text[:at] + text[at : at + size] + text[at:]
        else:
            text = text[:at]
    return text


def harmed_bytes(data, rng):
    """Bytes flipped, random, or of another encoding in the middle of the file."""
    data, how = bytearray(data), int(rng.integers(4))
    at = int(rng.integers(max(len(data), 1)))
    if how == 0 and data:
        data[at % len(data)] ^= 1 << int(rng.integers(8))
    elif how == 1:
        data[at:at] = rng.bytes(int(rng.integers(1, 30)))
    elif how == 2:
        data[at:at] = b"\x00" * int(rng.integers(1, 500))
    else:
        data[at:at] = "größe 東".encode(str(rng.choice(["latin-1", "utf-16", "utf-8", "shift-jis"])), "ignore")
    return bytes(data)


def case_of(number):
    """The bytes of a case, and which kinds of damage it has."""
    rng = np.random.default_rng([11, number])
    kinds, rows = (
        set(rng.choice(["rows", "text", "bytes", "encoding"], int(rng.integers(1, 3)), replace=False).tolist()),
        cells(),
    )
    if "rows" in kinds:
        rows = harmed_rows(rows, rng)
    separator, newline = str(rng.choice([",", ";", "\t", "|"])), str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    text = as_text(rows, separator, bool(rng.random() < 0.3), newline)
    if "text" in kinds:
        text = harmed_text(text, rng)
    encoding = (
        str(rng.choice(["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-32", "cp500"]))
        if "encoding" in kinds
        else "utf-8"
    )
    data = text.encode(encoding, "replace")
    return (harmed_bytes(data, rng) if "bytes" in kinds else data), kinds


def shifted(table, kinds):
    """A sentence if a value is in a column that it does not belong to.

    A piece of text that was taken out or doubled may make whole, wrong rows of right lengths, which nobody can tell.
    """
    if kinds & {"text", "bytes"}:
        return None
    home = {cell: name for row in cells() for cell, name in zip(row, NAMES)}
    for name in table.column_names:
        for value in table[name].to_pylist():
            text = (
                str(value)[:10]
                if hasattr(value, "year")
                else f"{value:.2f}"
                if name == "area" and isinstance(value, float)
                else str(value)
            )
            if home.get(text, name) != name and name in NAMES:
                return f"{text!r} of column {home[text]!r} is in column {name!r}"
    return None


def run_case(number, path, model, full):
    """What became of a case, and a sentence if it should not be so."""
    from usnrt.cli._data import table_and_features, training_data
    from usnrt.cli._output import UserError
    from usnrt.cli._tables import in_memory, open_table

    data, kinds = case_of(number)
    path.write_bytes(data)
    notices = []
    try:
        if full:
            from steps import command

            arguments = ["predict", str(path.with_name("model.usnrt")), str(path), "--quiet"]
            code, _, _ = command(arguments)
            return f"usnrt predict: exit code {code}", None
        if number % 2:
            source = open_table(path, notices.append)
            training_data(source, "price", [], notices.append)
            table, kind = in_memory(source), "a table to fit"
        else:
            table, _ = table_and_features(model, path, notices.append)
            kind = "a table to predict"
    except UserError as error:
        return f"refused: {_kind(str(error), path)}", None if _is_sentence(
            str(error)
        ) else f"not a sentence: {str(error)[:200]!r}"
    except (ValueError, TypeError, OSError) as error:
        last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        is_ours = "usnrt" in last.parts
        return (
            f"refused by {type(error).__name__}",
            None if is_ours else f"{type(error).__name__} of {last.name}: {str(error)[:200]}",
        )
    except BaseException as error:
        return "another error", f"{type(error).__name__}: {error}"
    return kind, shifted(table, kinds)


def _is_sentence(text):
    return bool(text) and "\n" not in text and len(text) < 1000


def _kind(text, path):
    text = text.replace(str(path), "FILE")
    words = ["'...'" if i % 2 else part for i, part in enumerate(text.split("'"))]
    return "".join("#" if c.isdigit() else c for c in "".join(words))[:80]


def main():
    """Run all cases and print the counts."""
    from usnrt import USNRTRegressor
    from usnrt.cli._data import training_data
    from usnrt.cli._tables import open_table

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        path.write_text(as_text(cells()))
        found = training_data(open_table(path, print), "price", [], print, keep=["district"])
        model = USNRTRegressor(hidden=(4,), max_epochs=1, n_jobs=1, random_state=0).fit(found.features, found.target)
        found.reading.remember(model.encoder_)
        model.save(path.with_name("model.usnrt"))
        run_cases(__doc__, 10_000, lambda number: run_case(number, path, model, full=number % 20 == 0))


if __name__ == "__main__":
    main()
