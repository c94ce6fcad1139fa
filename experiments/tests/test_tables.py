"""Tables character by character from small known records, and the paper's own counts from its numbers."""

import itertools

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from usnrt.paper.datasets import get_spec, list_datasets
from usnrt_experiments import Cell, Record
from usnrt_experiments.aggregate import Means
from usnrt_experiments.heterogeneity import DEFAULT, heterogeneity_correlation, rank_correlation
from usnrt_experiments.layout import Layout, marks, number, words
from usnrt_experiments.paper import paper_value
from usnrt_experiments.tables import COMPARISONS, TABLES, make_table


def record(dataset, recipe, seed, tree=None, **metrics):
    meta = {"metrics": metrics, "fit_cpu_seconds": 12.34, "tree": tree}
    return Record(Cell(dataset, recipe, seed), "done", meta)


def all_seeds(dataset, recipe, values, **more):
    return [record(dataset, recipe, 42 + 100 * i, ece=value, **more) for i, value in enumerate(values)]


RECORDS = [
    *all_seeds("electrical", "hnn-paper", [3.8, 4.0, 4.2, 4.0, 4.0]),
    *all_seeds("electrical", "extra-trees-paper", [9.0] * 5),
    *all_seeds("electrical", "random-forest-paper", [6.0] * 5),
    *all_seeds("electrical", "usnrt-paper", [3.0] * 5, tree={"heterogeneity": 0.5}),
    *all_seeds("electrical", "usnrt", [0.75]),
    record("gpu", "hnn-paper", 42, ece=3.5),
    Record(Cell("gpu", "usnrt-paper", 42), "failed", {"error": "ValueError: no"}),
]


def lines_of(text, start, stop):
    lines = text.splitlines()
    return "\n".join(lines[start:stop]) + "\n"


def test_text():
    text = make_table("ece", RECORDS).render("text")
    assert lines_of(text, 0, 8) == (
        "ECE, times 100\n"
        "\n"
        "Dataset                     Source          Splits       HNN  Extra Trees  Random Forest     USNRT  "
        "Percentage Decrease\n"
        "----------------------------------------------------------------------------------------------------"
        "-------------------\n"
        "Electrical                  paper                    3.74*        9.38           6.09      6.92     "
        "          -84.9%\n"
        "                            paper's recipe    5      4.00         9.00           6.00      3.00**   "
        "           25.0%\n"
        "                            default           1                                            0.75†\n"
        "Conditional                 paper                    5.91        15.80          11.49      2.14*    "
        "           63.7%\n"
    )
    assert lines_of(text, -7, None) == (
        "GPU                         paper                    3.04         8.17           5.95      2.32*    "
        "           23.5%\n"
        "                            paper's recipe    1      3.50\n"
        "Wave                        paper                   14.72         9.45           5.98      1.52*    "
        "           74.6%\n"
        "lowest of 17                paper                       1            1              0        15\n"
        "lowest of 1 (beyond error)  paper's recipe          0 (0)        0 (0)          0 (0)     1 (1)\n"
        "\n"
        "** lower than every other of its row by more than the error; * lowest, or not distinguished from "
        "the lowest; † mean over fewer seeds than planned\n"
    )


def test_markdown():
    text = make_table("ece", RECORDS).render("markdown")
    assert lines_of(text, 0, 8) == (
        "**ECE, times 100**\n"
        "\n"
        "| Dataset | Source | Splits | HNN | Extra Trees | Random Forest | USNRT | Percentage Decrease |\n"
        "| :-- | :-- | --: | --: | --: | --: | --: | --: |\n"
        "| Electrical | paper |  | 3.74\\* | 9.38 | 6.09 | 6.92 | -84.9% |\n"
        "|  | paper's recipe | 5 | 4.00 | 9.00 | 6.00 | **3.00** | 25.0% |\n"
        "|  | default | 1 |  |  |  | 0.75† |  |\n"
        "| Conditional | paper |  | 5.91 | 15.80 | 11.49 | 2.14\\* | 63.7% |\n"
    )
    assert lines_of(text, -2, None) == (
        "\n**bold**: lower than every other of its row by more than the error; \\*: lowest, or not distinguished from "
        "the lowest; †: mean over fewer seeds than planned\n"
    )


def test_latex():
    text = make_table("ece", RECORDS).render("latex")
    assert lines_of(text, 0, 10) == (
        "\\begin{table}[t]\n"
        "\\centering\n"
        "\\caption{\\textbf{ECE, times 100}. bold: lower than every other of its row by more than the error; *: "
        "lowest, or not distinguished from the lowest; +: mean over fewer seeds than planned.}\n"
        "\\begin{tabular}{llrrrrrr}\n"
        "\\toprule\n"
        "Dataset & Source & Splits & HNN & Extra Trees & Random Forest & USNRT & Percentage Decrease \\\\ \\midrule\n"
        "Electrical & paper &  & $^*$3.74 & 9.38 & 6.09 & 6.92 & -84.9\\% \\\\\n"
        " & paper's recipe & 5 & 4.00 & 9.00 & 6.00 & \\textbf{3.00} & 25.0\\% \\\\\n"
        " & default & 1 &  &  &  & 0.75$^+$ &  \\\\\n"
        "Conditional & paper &  & 5.91 & 15.80 & 11.49 & $^*$2.14 & 63.7\\% \\\\\n"
    )
    assert lines_of(text, -3, None) == "\\bottomrule\n\\end{tabular}\n\\end{table}\n"


def test_csv():
    text = make_table("ece", RECORDS).render("csv")
    assert lines_of(text, 0, 5) == (
        "Dataset,Source,Splits,HNN,Extra Trees,Random Forest,USNRT,Percentage Decrease\n"
        "Electrical,paper,,3.74,9.38,6.09,6.92,-84.9\n"
        "Electrical,paper's recipe,5,4,9,6,3,25\n"
        "Electrical,default,1,,,,0.75,\n"
        "Conditional,paper,,5.91,15.8,11.49,2.14,63.7\n"
    )


def test_infinite_numbers_and_peers():
    records = [
        record("electrical", "catboost", 42, crps=2.0, nll=float("inf")),
        record("electrical", "usnrt", 42, crps=1.0, nll=-50.0),
    ]
    line = make_table("peers_nll", records).render("text").splitlines()[4]
    assert line.split() == ["Electrical", "-50.00**†", "inf†"]  # whatever the error
    header, line = make_table("peers_crps", records).render("csv").splitlines()
    values = dict(zip(header.split(","), line.split(",")))
    assert {name: value for name, value in values.items() if value} == {
        "Dataset": "Electrical", "USNRT": "1", "CatBoost": "2",
    }  # fmt: skip


def test_heterogeneity_and_its_correlation():
    records = list(RECORDS)
    for dataset, measure, usnrt in [("conditional", 0.9, 1.0), ("power", 0.2, 3.9), ("traffic", 0.1, 3.5)]:
        for recipe in ("hnn-paper", "extra-trees-paper", "random-forest-paper"):
            records += all_seeds(dataset, recipe, [4.0] * 5)
        records += all_seeds(dataset, "usnrt-paper", [usnrt] * 5, tree={"heterogeneity": measure})
    text = make_table("heterogeneity", records).render("csv")
    assert "Electrical,0.4,0.5,0.5,,-84.9,25,\n" in text
    assert "Conditional,0.7,0.9,0.9,,63.7,75,\n" in text
    assert text.splitlines()[1].startswith("Facebook1,1.8,")
    assert make_table("heterogeneity", records).notes == [
        "Spearman's rank correlation of the two, as reported in the paper: 0.44. The paper's measure is that of one "
        "split (seed 42 in the authors' code), its decrease that of means over splits.",
        "Spearman's rank correlation, paper: 0.44 over 17 data sets (one-sided p = 0.039).",
        "Spearman's rank correlation, paper's recipe, first split: 0.80 over 4 data sets (one-sided p = 0.167, 0.100 "
        "by the t approximation).",
        "Spearman's rank correlation, paper's recipe, mean over splits: 0.80 over 4 data sets (one-sided p = 0.167, "
        "0.100 by the t approximation).",
    ]
    assert heterogeneity_correlation(Means(records), DEFAULT) is None


def test_the_measure_of_the_first_split_is_not_the_mean():
    records = [
        record("power", "usnrt-paper", seed, tree={"heterogeneity": value}, ece=2.0)
        for seed, value in ((42, 0.2), (142, 0.6))
    ]
    row = make_table("heterogeneity", records).render("csv").splitlines()[10]
    assert row == "Power,0.49,0.2,0.4,,2.3,,"
    assert Means(records).heterogeneity("power", "usnrt-paper", 242) is None


@pytest.mark.parametrize("ties", [False, True])
def test_exact_p_values_are_those_of_all_orders(ties):
    """Eight pairs: counted by subsets and by going through all 40,320 orders."""
    rng = np.random.default_rng(3)
    first, second = (rng.integers(0, 5 if ties else 1000, 8).astype(float) for _ in range(2))
    found = rank_correlation(list(zip(first, second)))
    one, other = rankdata(first), rankdata(second)
    sums = np.array([one @ np.array(order) for order in itertools.permutations(other)])
    assert found.value == pytest.approx(spearmanr(first, second).statistic)
    assert found.p_value == pytest.approx(np.mean(sums >= one @ other - 1e-9))
    assert 0.0 < found.p_value < 1.0


def test_exact_and_approximate_p_values_meet_at_the_boundary():
    """Twelve pairs are counted, thirteen approximated; of pairs without relation, the two hardly differ."""
    rng = np.random.default_rng(0)
    counted, approximated = (rank_correlation(list(zip(range(n), rng.permutation(n)))) for n in (12, 13))
    assert counted.approximate == pytest.approx(counted.p_value, abs=0.01)
    assert approximated.approximate is None


def test_what_is_compared_is_compared_on_the_same_splits():
    # On the one split that all have USNRT is best; its mean over five is not.
    records = [
        *all_seeds("power", "usnrt-paper", [2.0, 9.0, 9.0, 9.0, 9.0]),
        *(record("power", f"{name}-paper", 42, ece=4.0) for name in ("hnn", "extra-trees", "random-forest")),
    ]
    table, means = COMPARISONS["ece"], Means(records)
    assert table.winners(means, "paper's recipe") == {"power": "USNRT"}
    assert table.percentage(means, "power", "paper's recipe") == 50.0
    assert table.values(means, "power", "paper's recipe")[-1].value == 7.6
    assert table.fair_values(means, "power", "paper's recipe", among=("USNRT",)) == {"USNRT": 7.6}


def cells_of(layout, dataset):
    """The line of a data set: the text and the mark of each number."""
    row = next(row for row in layout.rows if row[0].value == dataset)
    return {name: (entry.text, entry.mark) for name, entry in zip(layout.header, row) if entry.text}


def test_marks_compare_equal_splits():
    """Facebook1: the tree's mean over five splits is below the ensemble's one; on that one the ensemble is better."""
    crps = [8.17, 7.38, 7.38, 7.38, 7.39]
    records = [
        *(record("facebook1", "usnrt", 42 + 100 * i, crps=value) for i, value in enumerate(crps)),
        record("facebook1", "usnrt-ensemble", 42, crps=7.89),
        *(record("facebook1", "catboost", seed, crps=9.0) for seed in (42, 142)),
        record("power", "usnrt", 42, crps=3.0),
        record("power", "usnrt-ensemble", 42, crps=2.0),
    ]
    layout = make_table("peers_crps", records)
    assert cells_of(layout, "Facebook1") == {
        "Dataset": ("Facebook1 ‡", ""),
        "USNRT": ("7.54", ""),
        "USNRT Ensemble": ("7.89", "tied"),  # the lowest on the split in common; its error is not known
        "CatBoost": ("9.00", ""),
    }
    assert cells_of(layout, "Power")["Dataset"] == ("Power", "")  # the splits are equal
    assert layout.notes == [
        "‡: the models of this row were run on different splits. Ranks, counts and percentages are computed on the "
        "splits that they have in common; each value shown is the mean over all splits of its model.",
        "Facebook1: on the one split in common USNRT 8.17, USNRT Ensemble 7.89, CatBoost 9.00.",
    ]
    assert "\nFacebook1,,7.54,7.89,,,,9,,," in layout.render("csv")
    assert "Facebook1 $\\ddagger$ &  & 7.54 & $^*$7.89$^+$" in layout.render("latex")


def test_bold_is_what_is_lower_beyond_error():
    """Five splits each: the tree is below CatBoost on average, but by less than the error of the difference."""
    noise = [0.0, 1.0, -1.0, 0.5, -0.5]
    records = []
    for i, shift in enumerate(noise):
        records.append(record("power", "usnrt", 42 + 100 * i, crps=3.0))
        records.append(record("power", "catboost", 42 + 100 * i, crps=3.5 + shift))
        records.append(record("traffic", "usnrt", 42 + 100 * i, crps=3.0 + shift))
        records.append(record("traffic", "catboost", 42 + 100 * i, crps=3.5 + shift))  # paired: always 0.5 more
    layout = make_table("peers_crps", records)
    marked = [
        {name: cells_of(layout, title)[name][1] for name in ("USNRT", "CatBoost")} for title in ("Power", "Traffic")
    ]
    assert marked == [{"USNRT": "tied", "CatBoost": "tied"}, {"USNRT": "best", "CatBoost": ""}]


def test_a_cell_without_a_split_in_common_is_not_compared():
    records = [
        *(record("power", "usnrt", seed, crps=3.0) for seed in (42, 142)),
        *(record("power", "usnrt-ensemble", seed, crps=2.0) for seed in (42, 142)),
        record("power", "catboost", 242, crps=1.0),
    ]
    layout = make_table("peers_crps", records)
    assert cells_of(layout, "Power") == {
        "Dataset": ("Power ‡", ""),
        "USNRT": ("3.00", ""),
        "USNRT Ensemble": ("2.00", "best"),
        "CatBoost": ("1.00", ""),
    }
    assert layout.notes[1:] == [
        "Power: on the 2 splits in common USNRT 3.00, USNRT Ensemble 2.00; not compared: CatBoost."
    ]
    apart = make_table("peers_crps", [records[0], records[-1]])
    assert {mark for _, mark in cells_of(apart, "Power").values()} == {""}


def test_a_split_without_the_metric_is_not_one_in_common():
    records = [
        record("power", "usnrt", 42, crps=3.0, nll=1.0),
        record("power", "usnrt", 142, nll=1.0),  # an older record may lack a newer metric
        *(record("power", "catboost", seed, crps=crps, nll=2.0) for seed, crps in ((42, 4.0), (142, 1.0))),
    ]
    assert cells_of(make_table("peers_crps", records), "Power")["USNRT"] == ("3.00", "tied")
    assert cells_of(make_table("peers_nll", records), "Power")["Dataset"] == ("Power", "")


def test_recipes_without_a_common_split_are_not_compared():
    records = [
        record("power", "usnrt-paper", 142, ece=2.0),
        *(record("power", f"{name}-paper", 42, ece=4.0) for name in ("hnn", "extra-trees", "random-forest")),
    ]
    assert COMPARISONS["ece"].winners(Means(records), "paper's recipe") == {}


def test_ensembles_with_the_papers_recipe_show_the_floored_nll():
    values = {"mc-dropout": 40.0, "concrete-dropout": 50.0, "deep-ensemble": 1e6, "evidential": 60.0}
    records = [record("power", f"{name}-paper", 42, nll=nll, nll_floored=30.0) for name, nll in values.items()]
    records += [record("power", "usnrt-ensemble-paper", 42, nll=70.0)]  # an older record
    records += [record("power", "deep-ensemble", 42, nll=80.0, nll_floored=20.0)]
    table, means = COMPARISONS["nll"], Means(records)
    shown = [mean and mean.value for mean in table.values(means, "power", "paper's recipe")]
    assert shown == [40.0, 50.0, 30.0, 60.0, 70.0]
    assert table.winners(means, "paper's recipe") == {"power": "Deep Ensemble"}
    assert table.fair_values(means, "power", "default") == {"Deep Ensemble": 80.0}
    assert table.layout(means).notes == [
        "Deep Ensemble and USNRT Ensemble with the paper's recipe: NLL with densities floored at 1e-16, as in the "
        "authors' ensemble code, to be comparable with the paper's values. No floor elsewhere.",
        "Records without the floored NLL show the NLL without a floor: Power.",
    ]
    assert table.layout(Means([])).notes == []
    assert COMPARISONS["peers_nll"].layout(means).notes == []


def test_dataset_table():
    rows = make_table("datasets", RECORDS).render("csv").splitlines()
    assert rows[2] == ("Conditional,Condition Based Maintenance of Naval Propulsion Plants,11933,11934,15,15,0,0,0")
    assert rows[1].endswith(",5")
    assert rows[16].endswith("GPU Kernel Performance,241600,241600,14,14,4,4,1")


def test_times_table():
    assert make_table("times", RECORDS).render("csv") == (
        "Recipe,Electrical,GPU\n"
        "usnrt-paper,12.34,\n"
        "usnrt,12.34,\n"
        "hnn-paper,12.34,12.34\n"
        "random-forest-paper,12.34,\n"
        "extra-trees-paper,12.34,\n"
    )


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ece", {"USNRT": 15}),
        ("tce", {"USNRT": 11, "HNN": 5}),
        ("sharpness", {"USNRT": 8, "HNN": 4, "Random Forest": 5}),
        ("rmse", {"USNRT Ensemble": 10}),
        ("nll", {"USNRT Ensemble": 6, "Evidential": 6, "Deep Ensemble": 5}),
        ("evidential_rmse", {"USNRT Ensemble": 14}),
        ("evidential_nll", {"USNRT Ensemble": 8}),
    ],
)
def test_the_papers_numbers_give_the_counts_of_its_captions(name, counts):
    winners = list(COMPARISONS[name].winners(Means([]), "paper").values())
    assert len(winners) == 17
    assert {label: winners.count(label) for label in counts} == counts


def test_every_table_has_every_style():
    for name in TABLES:
        for style in ("text", "markdown", "latex", "csv"):
            assert make_table(name, RECORDS).render(style).endswith("\n")


def test_marks_need_a_rival_and_share_equal_numbers():
    assert marks([None, 2.0, None]) == ["", "", ""]
    assert marks([2.001, 2.002, 5.0]) == ["best", "best", "second"]
    assert marks([float("inf"), 1.0]) == ["second", "best"]


def test_special_characters_are_escaped():
    layout = Layout("a_b & 5%", ["x_1", "#"], [[words("p|q"), number(1.0)]])
    assert "\\textbf{a\\_b \\& 5\\%}" in layout.render("latex")
    assert "x\\_1 & \\# \\\\ \\midrule" in layout.render("latex")
    assert "| p\\|q | 1.00 |" in layout.render("markdown")


def test_clear_errors():
    with pytest.raises(ValueError, match=r"^table must be one of \['datasets', .*\], got 'mae'$"):
        make_table("mae", RECORDS)
    with pytest.raises(ValueError, match=r"^format must be one of .*, got 'html'$"):
        make_table("ece", RECORDS).render("html")


def test_counts_of_the_data_sets_are_the_papers():
    for name in list_datasets():
        spec = get_spec(name)
        rows = spec.n_rows - (name == "conditional")  # the paper's code loses one row to a header
        columns = ("Sample Size", "Feature Dimension", "Categorical Variables")
        counts = [paper_value("datasets", name, column) for column in columns]
        assert counts == [rows, spec.n_features, len(spec.categorical)]
