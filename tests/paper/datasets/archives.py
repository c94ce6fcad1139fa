"""Archives of the layout of UCI's, with generated values, of the data sets whose files are not at hand."""

import dataclasses
import io
import zipfile

import numpy as np
import pandas as pd

from usnrt.paper.datasets.specs import SPECS

ONLINE_COLUMNS = [
    "id", "duration", "codec", "width", "height", "bitrate", "framerate", "i", "p", "b", "frames", "i_size", "p_size",
    "b_size", "size", "o_codec", "o_bitrate", "o_framerate", "o_width", "o_height", "umem", "utime",
]  # fmt: skip
CODECS = ("mpeg4", "h264", "vp8", "flv")


def csv_bytes(frame, **options):
    return frame.to_csv(index=False, lineterminator="\r\n", **options).encode()


def nested(*names_and_contents):
    """A zip archive of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names_and_contents:
            archive.writestr(name, content)
    return buffer.getvalue()


def online(n, rng):
    frame = pd.DataFrame({name: rng.integers(1, 1000, n) for name in ONLINE_COLUMNS})
    frame["id"] = [f"04t6-{k:06d}" for k in range(n)]
    frame["codec"], frame["o_codec"] = rng.choice(CODECS, n), rng.choice(CODECS, n)
    frame["duration"], frame["b_size"] = rng.uniform(10, 900, n).round(5), 0
    frame["utime"] = (frame["o_width"] / 100 + rng.exponential(1, n)).round(3)
    file = csv_bytes(frame, sep="\t")
    return nested(
        ("readme.txt", b"-"), ("youtube_videos.tsv", b"a\tb\r\n1\t2\r\n"), ("transcoding_mesurment.tsv", file)
    )


def facebook2(n, rng):
    frame = pd.DataFrame(rng.integers(0, 50, (n, 54)))
    frame[37] = 0
    training = nested(
        ("Dataset/Training/Features_Variant_1.csv", b"1,2\r\n"),
        ("Dataset/Training/Features_Variant_2.csv", csv_bytes(frame, header=False)),
    )
    return nested(("Dataset.zip", training), ("__MACOSX/Dataset/Training/Features_Variant_2.csv", b"junk"))


def year(n, rng):
    frame = pd.DataFrame(rng.normal(size=(2 * n, 91)).round(5))
    frame[0] = rng.integers(1922, 2012, 2 * n)
    return nested(("YearPredictionMSD.txt.zip", nested(("YearPredictionMSD.txt", csv_bytes(frame, header=False)))))


def query(n, rng):
    names = ["x", "y", "x_range", "y_range", "count", "sum_", "avg"]
    frame = pd.DataFrame(rng.uniform(1, 9, (n + 7, 7)), columns=names)
    frame.loc[rng.permutation(n + 7)[:7], "avg"] = np.nan  # queries without results
    file = frame.to_csv(lineterminator="\r\n").encode()
    return nested(("Datasets/Range-Queries-Aggregates.csv", file), ("Datasets/Radius-Queries.csv", b"a\r\n"))


def wave(n, rng):
    parts = []
    for place, city in enumerate(("Tasmania", "Sydney", "Perth", "Adelaide")):
        powers = rng.uniform(1e4, 1e5, (n // 4, 16))
        frame = pd.DataFrame(
            np.hstack([rng.uniform(0, 566, (n // 4, 32)) + 1000 * place, powers, powers.sum(1)[:, None]])
        )
        parts.append((f"WECs_DataSet/{city}_Data.csv", csv_bytes(frame.round(4), header=False)))
    return nested(("WECs_DataSet.zip", nested(*parts)))


MAKERS = {"online": online, "facebook2": facebook2, "year": year, "query": query, "wave": wave}


def put_archive(name, folder, monkeypatch):
    """Put a data set of 400 rows into the folder of USNRT_DATA, as UCI's archive has it; returns its spec."""
    spec = SPECS[name]
    smaller = dataclasses.replace(spec, n_rows=400, sample=400 if spec.sample else None)
    monkeypatch.setitem(SPECS, name, smaller)
    monkeypatch.setenv("USNRT_DATA", str(folder))
    monkeypatch.setenv("USNRT_CACHE", str(folder / "empty"))
    (folder / "uci").mkdir()
    (folder / "uci" / f"{name}.zip").write_bytes(MAKERS[name](400, np.random.default_rng(0)))
    return smaller
