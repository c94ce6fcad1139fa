"""Specifications of the paper's 17 data sets: source, target, features and peculiarities."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: its name, alternative names, and its SHA-256 where known."""

    name: str
    sha256: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """Specification of one data set.

    Attributes
    ----------
    key, title : str
        Name for :func:`usnrt.paper.datasets.fetch`, and name in the paper's tables.
    full_name, authors : str
        Name and donors in the UCI repository.
    uci_id : int
        Id in the UCI repository; ``slug`` is the last part of the download URL.
    files : tuple of DataFile
        Concatenated in this order.
    target : str
        Column to predict; rows without it are left out.
    n_rows, n_features : int
        Shape of the table that :func:`usnrt.paper.datasets.fetch` returns.
    drop, categorical : tuple of str
        Columns to leave out, and categorical columns.
    columns : tuple of str
        Column names of files without a header; empty if there is a header.
    read : dict
        Further arguments of ``pandas.read_csv``.
    sample : int or None
        Number of rows to keep, drawn with seed 42 (as the paper does for Year).
    note : str
        Peculiarities of the data set.
    """

    key: str
    title: str
    full_name: str
    authors: str
    uci_id: int
    slug: str
    files: tuple[DataFile, ...]
    target: str
    n_rows: int
    n_features: int
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    read: dict[str, Any] = field(default_factory=dict)
    sample: int | None = None
    note: str = ""

    @property
    def page(self) -> str:
        """URL of the data set's page at UCI."""
        return f"https://archive.ics.uci.edu/dataset/{self.uci_id}"

    @property
    def citation(self) -> str:
        """Citation in one line."""
        return f"{self.authors}. {self.full_name}. UCI Machine Learning Repository, {self.page}."


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"c{j}" for j in range(count))


# fmt: off
_NAVAL = ("lp", "v", "GTT", "GTn", "GGn", "Ts", "Tp", "T48", "T1", "T2", "P48", "P1", "P2", "Pexh", "TIC", "mf",
          "kMc", "kMt")
# fmt: on
_ZEROS = "The target is mostly 0 with a long tail."

SPECS: dict[str, Spec] = {
    spec.key: spec
    for spec in (
        Spec(
            key="electrical",
            title="Electrical",
            full_name="Electrical Grid Stability Simulated Data",
            authors="V. Arzamasov",
            uci_id=471,
            slug="electrical+grid+stability+simulated+data",
            files=(
                DataFile(
                    "Data_for_UCI_named.csv",
                    "02bcd212dc31b6d1b9acbf8d7f7e722a50da917ae204ba34d9dbd3d824d2e255",
                ),
            ),
            target="stab",
            n_rows=10_000,
            n_features=12,
            drop=("stabf",),
            note="stabf is the sign of the target and is left out. The data are simulated without noise.",
        ),
        Spec(
            key="conditional",
            title="Conditional",
            full_name="Condition Based Maintenance of Naval Propulsion Plants",
            authors="A. Coraddu, L. Oneto, A. Ghio, S. Savio, D. Anguita and M. Figari",
            uci_id=316,
            slug="condition+based+maintenance+of+naval+propulsion+plants",
            files=(
                DataFile(
                    "CBM_data.txt",
                    "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
                    aliases=("data.txt",),
                ),
            ),
            target="kMc",
            n_rows=11_934,
            n_features=15,
            drop=("kMt", "T1"),
            columns=_NAVAL,
            read={"sep": r"\s+"},
            note=(
                "The file has no header; the paper's code reads its first row as one, leaving 11,933. "
                "P1 is constant and kept, as in the paper."
            ),
        ),
        Spec(
            key="appliances",
            title="Appliances",
            full_name="Appliances Energy Prediction",
            authors="L. Candanedo",
            uci_id=374,
            slug="appliances+energy+prediction",
            files=(
                DataFile(
                    "energydata_complete.csv",
                    "e7601453ceb2f346d6d721480d74438422705ce5ac5c504c1addfac540dff413",
                ),
            ),
            target="Appliances",
            n_rows=19_735,
            n_features=27,
            drop=("date",),
            note="rv1 and rv2 are the same random numbers, included to test feature selection.",
        ),
        Spec(
            key="realtime",
            title="Real-time",
            full_name="Real-time Election Results: Portugal 2019",
            authors="N. Moniz",
            uci_id=513,
            slug="real+time+election+results+portugal+2019",
            files=(
                DataFile(
                    "ElectionData.csv",
                    "e7cb0eda8aba191436ab06d7b5497b22d027838df60b53805917bad8439ba1af",
                ),
            ),
            target="FinalMandates",
            n_rows=21_643,
            n_features=23,
            drop=("TimeElapsed", "time", "territoryName", "Party"),
            note=(
                "Rows are one election at many points in time: a random split puts near duplicates on both sides, "
                "so metrics on this data set are too optimistic for every model."
            ),
        ),
        Spec(
            key="industry",
            title="Industry",
            full_name="Steel Industry Energy Consumption",
            authors="Sathishkumar V E, C. Shin and Y. Cho",
            uci_id=851,
            slug="steel+industry+energy+consumption",
            files=(
                DataFile(
                    "Steel_industry_data.csv",
                    "22b56aec08df4d0d2a4e18203e86c680b414c7aa46b3bbde5030e9db625f51cb",
                ),
            ),
            target="Usage_kWh",
            n_rows=35_040,
            n_features=9,
            drop=("date",),
            categorical=("WeekStatus", "Day_of_week", "Load_Type"),
        ),
        Spec(
            key="facebook1",
            title="Facebook1",
            full_name="Facebook Comment Volume, variant 1",
            authors="K. Singh",
            uci_id=363,
            slug="facebook+comment+volume+dataset",
            files=(
                DataFile(
                    "Features_Variant_1.csv",
                    "f8a739d1d95318694a7827fe5cc07d7ff5478ef9200a529f7625f8a45838a611",
                ),
            ),
            target="c53",
            n_rows=40_949,
            n_features=52,
            drop=("c37",),
            columns=_numbered(54),
            note=f"Columns are numbered from 0; c37 is constant. {_ZEROS}",
        ),
        Spec(
            key="beijing",
            title="Beijing",
            full_name="Beijing PM2.5",
            authors="S. Chen",
            uci_id=381,
            slug="beijing+pm2+5+data",
            files=(
                DataFile(
                    "PRSA_data_2010.1.1-2014.12.31.csv",
                    "4fe4c954a563d0e746f96c258e1acf31f7880f1ad825b046052121938781c656",
                ),
            ),
            target="pm2.5",
            n_rows=41_757,
            n_features=8,
            drop=("No", "month", "day", "hour"),
            categorical=("year", "cbwd"),
            note="The file has 43,824 rows; those without a target are left out.",
        ),
        Spec(
            key="physicochemical",
            title="Physicochemical",
            full_name="Physicochemical Properties of Protein Tertiary Structure",
            authors="P. Rana",
            uci_id=265,
            slug="physicochemical+properties+of+protein+tertiary+structure",
            files=(DataFile("CASP.csv", "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40"),),
            target="RMSD",
            n_rows=45_730,
            n_features=9,
        ),
        Spec(
            key="traffic",
            title="Traffic",
            full_name="Metro Interstate Traffic Volume",
            authors="J. Hogue",
            uci_id=492,
            slug="metro+interstate+traffic+volume",
            files=(
                DataFile(
                    "Metro_Interstate_Traffic_Volume.csv",
                    "0411ba6c43127a29cefa4d8f39708b9d77979d9dcf895f2d212506fe947b673c",
                ),
            ),
            target="traffic_volume",
            n_rows=48_204,
            n_features=6,
            drop=("weather_description", "date_time"),
            categorical=("holiday", "weather_main"),
            note="The text 'None' in holiday is a category (no holiday), not a missing value.",
        ),
        Spec(
            key="blog",
            title="Blog",
            full_name="BlogFeedback",
            authors="K. Buza",
            uci_id=304,
            slug="blogfeedback",
            files=(
                DataFile(
                    "blogData_train.csv",
                    "f3cc953ea9913361be6d3bae2c393eef73eab57b1cb8e5bf8a22f1e5eb5dd05f",
                ),
            ),
            target="c280",
            n_rows=52_397,
            n_features=276,
            drop=("c12", "c32", "c37", "c277"),
            columns=_numbered(281),
            note=f"Columns are numbered from 0; c12, c32, c37 and c277 are constant. {_ZEROS}",
        ),
        Spec(
            key="power",
            title="Power",
            full_name="Power Consumption of Tetouan City",
            authors="A. Salam and A. El Hibaoui",
            uci_id=849,
            slug="power+consumption+of+tetouan+city",
            files=(
                DataFile(
                    "Tetuan City power consumption.csv",
                    "d5f8e1062bbc30c0f4855d61d33103f5185ad4e70ed0e5a42393975d536dcb55",
                ),
            ),
            target="Zone 1 Power Consumption",
            n_rows=52_416,
            n_features=5,
            drop=("DateTime", "Zone 2  Power Consumption", "Zone 3  Power Consumption"),
        ),
        Spec(
            key="online",
            title="Online",
            full_name="Online Video Characteristics and Transcoding Time",
            authors="T. Deneke",
            uci_id=335,
            slug="online+video+characteristics+and+transcoding+time+dataset",
            files=(DataFile("transcoding_mesurment.tsv"),),
            target="utime",
            n_rows=68_784,
            n_features=18,
            drop=("id", "umem", "b_size"),
            categorical=("codec", "o_codec"),
            read={"sep": "\t"},
            note="b_size is constant.",
        ),
        Spec(
            key="facebook2",
            title="Facebook2",
            full_name="Facebook Comment Volume, variant 2",
            authors="K. Singh",
            uci_id=363,
            slug="facebook+comment+volume+dataset",
            files=(DataFile("Features_Variant_2.csv"),),
            target="c53",
            n_rows=81_312,
            n_features=52,
            drop=("c37",),
            columns=_numbered(54),
            note=f"Columns are numbered from 0; c37 is constant. {_ZEROS}",
        ),
        Spec(
            key="year",
            title="Year",
            full_name="YearPredictionMSD",
            authors="T. Bertin-Mahieux",
            uci_id=203,
            slug="yearpredictionmsd",
            files=(DataFile("YearPredictionMSD.txt"),),
            target="year",
            n_rows=100_000,
            n_features=90,
            columns=(
                "year",
                *(f"timbre_avg{j}" for j in range(1, 13)),
                *(f"timbre_cov{j}" for j in range(1, 79)),
            ),
            sample=100_000,
            note="The file has 515,345 rows, of which the paper draws 100,000.",
        ),
        Spec(
            key="query",
            title="Query",
            full_name="Query Analytics Workloads",
            authors="F. Savva",
            uci_id=493,
            slug="query+analytics+workloads+dataset",
            files=(DataFile("Range-Queries-Aggregates.csv"),),
            target="avg",
            n_rows=199_843,
            n_features=4,
            drop=("Unnamed: 0", "count", "sum_"),
            note="Queries without results have no average and are left out (157 of 200,000 rows).",
        ),
        Spec(
            key="gpu",
            title="GPU",
            full_name="SGEMM GPU Kernel Performance",
            authors="E. Paredes and R. Ballester-Ripoll",
            uci_id=440,
            slug="sgemm+gpu+kernel+performance",
            files=(DataFile("sgemm_product.csv", "b545b908c203eaa4d0b78c88e3a7196857efc34da3b6da9be774f017f2b5e960"),),
            target="Run1 (ms)",
            n_rows=241_600,
            n_features=14,
            drop=("Run2 (ms)", "Run3 (ms)", "Run4 (ms)"),
            categorical=("STRM", "STRN", "SA", "SB"),
        ),
        Spec(
            key="wave",
            title="Wave",
            full_name="Wave Energy Converters",
            authors="M. Neshat, B. Alexander, N. Sergiienko and M. Wagner",
            uci_id=494,
            slug="wave+energy+converters",
            files=tuple(DataFile(f"{city}_Data.csv") for city in ("Adelaide", "Perth", "Sydney", "Tasmania")),
            target="Powerall",
            n_rows=287_999,
            n_features=48,
            columns=(*(f"{letter}{j}" for letter in "XYP" for j in range(1, 17)), "Powerall"),
            note="The target is the sum of P1 to P16, which are features: nearly noise-free.",
        ),
    )
}


def get_spec(name: str) -> Spec:
    """Specification of one data set.

    Parameters
    ----------
    name : str
        One of :func:`usnrt.paper.datasets.list_datasets`.

    Examples
    --------
    >>> from usnrt.paper.datasets import get_spec
    >>> get_spec("electrical").target
    'stab'
    """
    if name not in SPECS:
        raise ValueError(f"name must be one of {list(SPECS)}, got {name!r}")
    return SPECS[name]
