"""Files as business has them, and what each must give: a table with these columns, or one sentence.

python tests/tables/awkward.py folder    # writes them
"""

import gzip
import sys
from pathlib import Path

N = 60
NAN = float("nan")
SIZES = [round(1.5 + 7.25 * i % 90, 2) for i in range(N)]
WHOLE = [1000 + 37 * i for i in range(N)]
DAYS = [f"2021-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(N)]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def csv(column, sep=",", before="", after="", between="", quote=False, other="x"):
    """A column ``a`` of texts beside a column ``b``."""
    cells = [f'"{text}"' if quote else str(text) for text in column]
    lines = [f"{cell}{sep}{other}{i % 3}" for i, cell in enumerate(cells)]
    half = len(lines) // 2
    body = "\n".join([*lines[:half], *([between] if between else []), *lines[half:]])
    return f"{before}a{sep}b\n{body}\n{after}"


def german(values, digits=2):
    return [f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,")) for value in values]


def with_cells(values, cells):
    """Values of which some are these cells, from the third on; and the numbers that they stand for."""
    texts, numbers = list(map(str, values)), list(map(float, values))
    for row, cell in enumerate(cells, start=2):
        texts[row], numbers[row] = cell, NAN
    return texts, numbers


def _odd(cells):
    texts, numbers = with_cells(SIZES, cells)
    return csv(texts), numbers


def _dates(texts, dates):
    return csv(texts), [f"{date} 00:00:00" for date in dates]


def files():
    """By name: the bytes, and the values of ``a`` (numbers, texts of dates, labels) or a part of the sentence."""
    first_days = [f"{2010 + i // 12}-{1 + i % 12:02d}-01" for i in range(N)]
    quarters = [f"{2010 + i // 4}-{1 + 3 * (i % 4):02d}-01" for i in range(N)]
    weeks = [f"2021-W{1 + i % 50:02d}" for i in range(N)]
    mondays = [_monday(2021, 1 + i % 50) for i in range(N)]
    table = {
        # odd cells among numbers
        "odd words.csv": _odd(["n/a", "unknown", "TBD", "-", "?"]),
        "odd spaces.csv": _odd([" N/A ", "Unknown ", " -"]),
        "odd errors.csv": _odd(["#DIV/0!", "#VALUE!", "#REF!"]),
        "odd german.csv": _odd(["k.A.", "unbekannt", "--"]),
        "odd late.csv": (csv([*map(str, SIZES[:-1]), "n.a."]), [*SIZES[:-1], NAN]),
        "mostly words.csv": (csv(["unknown", "unknown", "7"] * 20), ["unknown", "unknown", "7"] * 20),
        "words.csv": (csv(["low", "unknown", "high"] * 20), ["low", "unknown", "high"] * 20),
        "odd dates.csv": (csv([DAYS[0], "unknown", *DAYS[2:]]), [f"{DAYS[0]} 00:00:00", None, *(
            f"{day} 00:00:00" for day in DAYS[2:])]),
        # currency, percent, thousands, durations
        "dollars.csv": (csv([f"${value:,}" for value in WHOLE], quote=True), WHOLE),
        "dollars and cents.csv": (csv([f"$ {value:,.2f}" for value in SIZES], quote=True), SIZES),
        "negative dollars.csv": (csv(["-$5.50", "$3.25"] * 30), [-5.5, 3.25] * 30),
        "accounting.csv": (csv(["($5.50)", "$3.25"] * 30), [-5.5, 3.25] * 30),
        "euros.csv": (csv([f"{text} EUR" for text in german(WHOLE, 0)], ";"), WHOLE),
        "euro signs.csv": (csv([f"{text} €" for text in german(SIZES)], ";"), SIZES),
        "francs.csv": (csv([f"CHF {value:,}".replace(",", "'") for value in WHOLE]), WHOLE),
        "odd dollars.csv": (csv(["TBD", *(f"${value}" for value in SIZES[1:])]), [NAN, *SIZES[1:]]),
        "two currencies.csv": (csv(["$5", "€7"] * 30), ["$5", "€7"] * 30),
        "percent.csv": (csv([f"{value}%" for value in SIZES]), SIZES),
        "percent german.csv": (csv([f"{text} %" for text in german(SIZES)], ";"), SIZES),
        "some percent.csv": (csv(["5%", "0.07"] * 30), ["5%", "0.07"] * 30),
        "durations.csv": (csv(["4:24", "12:05"] * 30), [264.0, 725.0] * 30),
        "long durations.csv": (csv(["1:04:24", "12:05"] * 30), [3864.0, 725.0] * 30),
        # dates
        "weeks.csv": _dates(weeks, mondays),
        "quarters.csv": _dates([f"{date[:4]}Q{1 + int(date[5:7]) // 3}" for date in quarters], quarters),
        "quarters first.csv": _dates([f"Q{1 + int(date[5:7]) // 3} {date[:4]}" for date in quarters], quarters),
        "months.csv": _dates([f"{MONTHS[int(date[5:7]) - 1]} {date[:4]}" for date in first_days], first_days),
        "months short.csv": _dates([f"{MONTHS[int(date[5:7]) - 1]}-{date[2:4]}" for date in first_days], first_days),
        # lines that are no rows
        "comments.csv": (csv(SIZES, before="# exported by a program\n# on a Monday\n"), SIZES),
        "comments between.csv": (csv(SIZES, before="# exported\n", between="# page 2"), SIZES),
        "title.csv": (csv(SIZES, before="Sales of the north\n"), SIZES),
        "title and gap.csv": (csv(SIZES, before="Sales of the north\nquarter 3\n\n"), SIZES),
        "title semicolons.csv": (csv(german(SIZES), ";", before="Sales, north;\n"), SIZES),
        "header with a hash.csv": (csv(SIZES).replace("a,b", "#a,b", 1), {"#a": SIZES}),
        # what is no table of text
        "page.csv": ("\n <!DOCTYPE html>\n<html><body>Log in</body></html>", "it is an HTML page"),
        "table page.csv": ("<table><tr><td>1</td></tr></table>", "it is an HTML page"),
        "workbook.csv": (b"PK\x03\x04" + bytes(40), "it is an Excel workbook or another zip file"),
        "old workbook.csv": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(40), "it is an old Excel workbook (.xls)"),
        "parquet.csv": (b"PAR1" + bytes(40), "it is a Parquet file"),
        "pdf.csv": (b"%PDF-1.7\n" + bytes(40), "it is a PDF"),
        "zipped.csv": (gzip.compress(b"a,b\n1,2\n"), "it is compressed by gzip; the name of the file must end in .gz"),
        "json.csv": ('[{"a": 1}, {"a": 2}]', "it is JSON"),
        "workbook.xls": (b"\xd0\xcf\x11\xe0", "save it as .xlsx or as CSV"),
        "data.sav": (b"$FL2", "got the ending '.sav'"),
    }  # fmt: skip
    return {name: (text.encode() if isinstance(text, str) else text, given) for name, (text, given) in table.items()}


def _monday(year, week):
    import datetime

    return datetime.date.fromisocalendar(year, week, 1).isoformat()


def write(folder):
    """Write all files to a folder."""
    for name, (data, _) in files().items():
        (Path(folder) / name).write_bytes(data)


if __name__ == "__main__":
    write(sys.argv[1])
