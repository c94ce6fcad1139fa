"""Claims of the paper's text: planted records that confirm, refute or cannot judge them."""

import pytest

from usnrt_experiments import Cell, Store
from usnrt_experiments.aggregate import Means
from usnrt_experiments.claims import claims, claims_table
from usnrt_experiments.figures import caption_of
from usnrt_experiments.recipes import STABILITY
from usnrt_experiments.stability import ARCHITECTURES, LEVELS, REGIONS, stability_claims
from usnrt_experiments.store import Record
from usnrt_experiments.verdicts import CONFIRMED, IN_PART, NOT_CONFIRMED, UNKNOWN

FIVE = (42, 142, 242, 342, 442)
SIX = ("electrical", "conditional", "appliances", "realtime", "power", "traffic")
ALEATORIC = ("hnn", "extra-trees", "random-forest", "usnrt")
NAMES = ("ece", "tce", "sharpness", "rmse", "nll")


def record(dataset, recipe, seed=42, tree=None, seconds=10.0, **metrics):
    meta = {"metrics": {**dict.fromkeys(NAMES, 5.0), **metrics}, "fit_cpu_seconds": seconds, "tree": tree}
    return Record(Cell(dataset, recipe, seed), "done", meta)


def found(records, start):
    """The one claim whose title starts so."""
    (claim,) = (claim for claim in claims(Means(records)) if claim.title.startswith(start))
    return claim


def aleatoric(dataset, *values, metric="ece", **more):
    return [record(dataset, f"{name}-paper", **{metric: value}, **more) for name, value in zip(ALEATORIC, values)]


def test_without_records_nothing_is_judged():
    assert {claim.verdict for claim in claims(Means([]))} == {UNKNOWN}
    rows = claims_table(Means([])).render("csv").splitlines()
    assert rows[0] == "Claim,Paper,Here,Verdict"
    assert rows[1] == "USNRT is best in ECE,15 of 17,no data set with all models,cannot be judged"


def test_counts_of_the_paper_are_those_of_its_text():
    stated = {claim.title: claim.paper for claim in claims(Means([])) if " is " in claim.title}
    for title, count in {
        "USNRT is best in ECE": "15 of 17",
        "USNRT is best in TCE": "11 of 17",
        "USNRT is best in Sharpness": "8 of 17",
        "USNRT Ensemble is best in RMSE": "10 of 17",
        "USNRT Ensemble is best in NLL": "6 of 17",
        "USNRT Ensemble is best in RMSE of Evidential over lambda": "14 of 17",
        "USNRT Ensemble is best in NLL of Evidential over lambda": "8 of 17",
        "USNRT is second or better in TCE": "15 of 17",
        "USNRT is second or better in Sharpness": "15 of 17",
        "USNRT Ensemble is second or better in RMSE": "14 of 17",
        "USNRT Ensemble is second or better in NLL": "14 of 17",
        "HNN is best in TCE": "5 of 17",
        "HNN is best in Sharpness": "4 of 17",
        "Random Forest is best in Sharpness": "5 of 17",
        "Evidential is best in NLL": "6 of 17",
        "Deep Ensemble is best in NLL": "5 of 17",
        "Evidential is second or better in NLL": "10 of 17",
        "Deep Ensemble is second or better in NLL": "9 of 17",
    }.items():
        assert stated[title] == count, title


def test_second_or_better_is_counted_on_the_same_sets():
    """In the paper USNRT is third on Electrical and best or second on the other three."""
    good = [
        *aleatoric("electrical", 1, 9, 9, 2, metric="tce"),
        *aleatoric("conditional", 1, 9, 9, 2, metric="tce"),
        *aleatoric("power", 1, 9, 9, 2, metric="tce"),
        *aleatoric("industry", 2, 9, 9, 1, metric="tce"),
    ]
    claim = found(good, "USNRT is second or better in TCE")
    assert claim.paper == "15 of 17; 3 of the 4 run here"
    assert (claim.here, claim.verdict) == ("4 of 4 data sets, 3 of them as in the paper", CONFIRMED)
    bad = [r for r in good if r.cell.dataset not in ("power", "industry")]
    bad += [*aleatoric("power", 1, 2, 9, 3, metric="tce"), *aleatoric("industry", 1, 2, 9, 3, metric="tce")]
    assert found(bad, "USNRT is second or better in TCE").verdict == NOT_CONFIRMED
    assert found(bad[:8], "USNRT is second or better in TCE").verdict == UNKNOWN


def test_a_competitor_is_not_to_be_better_than_stated():
    """HNN is best in TCE on two of these four in the paper."""
    names = ("electrical", "conditional", "power", "industry")
    better = [r for name in names for r in aleatoric(name, 1, 9, 9, 2, metric="tce")]
    claim = found(better, "HNN is best in TCE")
    assert (claim.paper, claim.verdict) == ("5 of 17; 2 of the 4 run here", NOT_CONFIRMED)
    assert found([*better[:12], *aleatoric("industry", 3, 9, 9, 2, metric="tce")], claim.title).verdict == CONFIRMED


def test_data_sets_of_other_winners_say_nothing_about_a_count():
    """In the paper HNN is best in TCE on none of these."""
    records = [
        r for n in ("conditional", "appliances", "realtime", "power") for r in aleatoric(n, 2, 9, 9, 1, metric="tce")
    ]
    assert found(records, "HNN is best in TCE").verdict == UNKNOWN


def test_improvements_are_named_set_by_set():
    records = [*aleatoric("conditional", 10, 20, 20, 4), *aleatoric("realtime", 10, 20, 20, 9)]
    claim = found(records, "Improvements of ECE")
    assert claim.paper == "Conditional, Real-time, Online, Wave (41 % or more)"
    assert claim.here == "41 % or more: Conditional; 50 % or more: Conditional (of 2)"
    assert claim.verdict == IN_PART


def test_mean_ranks_decide_the_second_place():
    records = [*aleatoric("power", 2, 4, 3, 1), *aleatoric("traffic", 2, 4, 3, 1)]
    claim = found(records, "In ECE, HNN is second")
    assert claim.here == "mean ranks: HNN 2.00, Extra Trees 4.00, Random Forest 3.00, USNRT 1.00"
    assert claim.verdict == CONFIRMED
    assert found(aleatoric("power", 4, 2, 3, 1), "In ECE, HNN is second").verdict == NOT_CONFIRMED


def test_significance_needs_six_sets_and_planted_differences():
    planted = [r for name in SIX for metric in ("ece", "tce") for r in aleatoric(name, 8, 9, 7, 4, metric=metric)]
    planted = {r.cell: r for r in planted}  # both metrics of a cell are 5 or planted
    for each in planted.values():
        each.meta["metrics"]["ece"] = each.meta["metrics"]["tce"]
    claim = found(planted.values(), "USNRT improves significantly")
    assert claim.verdict == CONFIRMED
    assert "ECE HNN p = 0.047, Extra Trees p = 0.047, Random Forest p = 0.047" in claim.here  # 3 / 2^6
    null = [r for place, name in enumerate(SIX) for r in aleatoric(name, 4, 4, 4, 3 + 2 * (place % 2))]
    for each in null:
        each.meta["metrics"]["tce"] = each.meta["metrics"]["ece"]
    assert found(null, "USNRT improves significantly").verdict == NOT_CONFIRMED
    assert found(list(planted.values())[:20], "USNRT improves significantly").verdict == UNKNOWN


def test_the_ensemble_is_compared_at_every_lambda():
    lambdas = (
        "evidential-paper-lambda0",
        "evidential-paper-lambda0.005",
        "evidential-paper",
        "evidential-paper-lambda0.05",
    )
    records = [record("electrical", name, rmse=3.0) for name in lambdas]
    records.append(record("electrical", "usnrt-ensemble-paper", rmse=2.0))
    claim = found(records, "USNRT Ensemble is better than Evidential at every lambda in RMSE")
    assert claim.paper == "56 of 68 comparisons; 0 of 4 on 1 data set run here"
    assert (claim.here, claim.verdict) == ("4 of 4", CONFIRMED)


def trees(depths, regions=7, **more):
    tree = {"n_leaves": regions, "leaf_residual_std": [0.1, 0.9], **more}
    return [record("power", "usnrt-paper", seed, tree={**tree, "max_depth": d}) for seed, d in zip(FIVE, depths)]


def test_depths_are_counted_from_the_records():
    claim = found(trees([3, 4, 5, 7, 4]), "A tree of depth")
    assert claim.here == "depth 3 to 7, median 4; deeper than 4: 2 of 5 trees"
    assert claim.verdict == NOT_CONFIRMED
    assert found(trees([2, 3, 4, 3, 2]), "A tree of depth").verdict == CONFIRMED


def test_regions_root_and_spread():
    assert found(trees([4, 4]), "At most 10").here == "7 to 7, median 7, of 2 trees"
    assert found(trees([4], regions=11), "At most 10").verdict == NOT_CONFIRMED
    assert found(trees([0], regions=1), "Variances on both").verdict == NOT_CONFIRMED
    assert found(trees([4], leaf_residual_std=[0.01, 1.4]), "Standard deviations").verdict == CONFIRMED
    assert found(trees([4]), "Standard deviations").here == "from 0.100 to 0.90; widest on Power"


def test_the_cost_is_a_number_without_a_verdict():
    records = [record("power", "usnrt-paper", seconds=20.0), record("power", "hnn-paper", seconds=10.0)]
    claim = found(records, "USNRT's computational cost")
    assert claim.here == "processor time 2.0 times HNN's in the median over 1 data set (2.0 to 2.0)"
    assert claim.verdict == UNKNOWN


def stability(dataset, recipes, values, metric="ece", error=0.01):
    """Records with errors over test rows: the metric without each block scatters by the error."""
    blocks = [error * (-1) ** k for k in range(10)]
    made = []
    for place, (recipe, value) in enumerate(zip(recipes, values)):
        each = record(dataset, recipe, **{metric: value})
        each.meta["leave_out_blocks"] = {metric: [value + (1 + place) * b / 10 for b in blocks]}
        made.append(each)
    return made


def verdict_of(records, start):
    (claim,) = (claim for claim in stability_claims(Means(records)) if claim.title.startswith(start))
    return claim.verdict, claim.here


def test_more_regions():
    falling, flat, rising = [8, 7, 6, 5, 5, 4, 4, 4], [4.0] * 8, [4, 4, 5, 6, 6, 8, 8, 8]
    agreeing = [*stability("conditional", REGIONS, falling), *stability("power", REGIONS, flat)]
    assert verdict_of(agreeing, "ECE falls with more regions")[0] == CONFIRMED
    verdict, here = verdict_of([*agreeing, *stability("electrical", REGIONS, rising)], "ECE falls with more regions")
    assert verdict == IN_PART
    assert here == (
        "from 1 to 10 regions, 3 data sets: lower by a quarter or more on Conditional; lower beyond error on "
        "Conditional; higher beyond error on Electrical"
    )
    both = [*stability("conditional", REGIONS, rising), *stability("power", REGIONS, rising)]
    assert verdict_of(both, "ECE falls with more regions")[0] == NOT_CONFIRMED
    blog = [*stability("conditional", REGIONS, falling), *stability("blog", REGIONS, rising)]
    assert verdict_of(blog, "ECE falls with more regions")[0] == CONFIRMED  # the paper says so itself
    assert verdict_of(stability("power", REGIONS, flat), "ECE falls with more regions")[0] == UNKNOWN


def test_a_rise_of_unknown_error_counts_and_is_said():
    records = [record("electrical", recipe, ece=value) for recipe, value in zip(REGIONS, [4, 4, 5, 6, 6, 8, 8, 8])]
    records += stability("conditional", REGIONS, [8, 7, 6, 5, 5, 4, 4, 4])
    verdict, here = verdict_of(records, "ECE falls with more regions")
    assert verdict == IN_PART
    assert here.endswith("; Electrical +100 %, error unknown")


def test_more_than_ten_regions_and_larger_networks():
    names = ("electrical", "conditional", "appliances", "power")
    enough = [r for name in names for r in stability(name, REGIONS, [8, 7, 6, 5, 5, 4, 4, 4])]
    assert verdict_of(enough, "10 regions are enough for ECE")[0] == CONFIRMED
    more = [r for name in names for r in stability(name, REGIONS, [8, 7, 6, 5, 5, 4, 3, 2])]
    assert verdict_of(more, "10 regions are enough for ECE")[0] == NOT_CONFIRMED
    small = [r for name in names for r in stability(name, ARCHITECTURES, [3, 3, 4, 4, 5])]
    assert verdict_of(small, "Larger networks need not have lower ECE")[0] == CONFIRMED
    large = stability("power", ARCHITECTURES, [3, 3, 2, 2, 1])
    verdict, here = verdict_of([*small[:15], *large], "Larger networks need not have lower ECE")
    assert verdict == IN_PART
    assert here.endswith("on 1 of 4 data sets (Power)")


@pytest.mark.parametrize(("spread", "verdict"), [(0.1, CONFIRMED), (3.0, NOT_CONFIRMED)])
def test_stable_means_no_more_than_over_splits(spread, verdict):
    records = []
    for name in ("electrical", "conditional", "appliances", "power"):
        records += [record(name, "usnrt-paper", seed, ece=3.0 + 0.2 * k) for k, seed in enumerate(FIVE)]
        records += [record(name, recipe, ece=3.0 + spread * k / 4) for k, recipe in enumerate(LEVELS)]
    assert verdict_of(records, "ECE is stable over the significance level")[0] == verdict


def test_captions_of_stability_figures_count_data_sets():
    records = [record("power", recipe) for recipe in STABILITY]
    records += [record("traffic", recipe) for recipe in ARCHITECTURES[:3]]
    assert caption_of("stability", records).endswith(
        " Data sets: network architecture 1 (and 1 with some of the values), maximum number of regions 1, "
        "significance level 1."
    )


def test_the_stability_figure_has_every_data_set_with_a_record(tmp_path):
    from usnrt_experiments.figures import FIGURES

    store = Store(tmp_path)
    for made in [*(record("power", name) for name in STABILITY), record("blog", ARCHITECTURES[0])]:
        store.finish(store.claim(made.cell), made.meta, {})
    figure = FIGURES["stability"].draw(store)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Blog", "Power"]
