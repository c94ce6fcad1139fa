"""Recipes are found by name, changed by text and fail with one sentence."""

import pytest

from usnrt import USNRTRegressor
from usnrt_experiments import RECIPES, get_recipe, make_grid, preset
from usnrt_experiments.constant import ConstantNormal
from usnrt_experiments.recipes import COMPARED, STABILITY


def test_changes_in_the_name():
    recipe = get_recipe("usnrt-paper?alpha=0.02&max_leaves=4&schedule=cosine&mean_hidden=('8d', '4d')")
    assert recipe.home.endswith(":PaperUSNRTRegressor")
    assert recipe.changes == {"alpha": 0.02, "max_leaves": 4, "schedule": "cosine", "mean_hidden": ("8d", "4d")}


def test_any_class_by_its_address():
    model = get_recipe("usnrt_experiments.constant:ConstantNormal?delay=0.5").build(random_state=7)
    assert isinstance(model, ConstantNormal)
    assert (model.delay, model.random_state) == (0.5, 7)


def test_n_jobs_goes_only_to_models_that_take_it():
    model = get_recipe("sklearn.ensemble:RandomForestRegressor").build(random_state=3, n_jobs=2)
    assert (model.random_state, model.n_jobs) == (3, 2)
    get_recipe("constant-normal").build(random_state=3, n_jobs=2)


def test_the_papers_recipe_and_the_stability_study():
    model = get_recipe("usnrt-paper-S4").build(random_state=42)
    assert model.split_hidden == ("8d", "16d", "4d")
    assert model.mean_hidden == model.variance_hidden == ("4d", "8d", "2d")
    assert model.random_state == 42
    assert get_recipe("usnrt-paper-leaves15").build(0).max_leaves == 15
    assert get_recipe("usnrt-paper-alpha0.002").build(0).alpha == 0.002
    assert len(STABILITY) == 5 + 8 + 5


def test_every_compared_recipe_is_registered():
    assert set(COMPARED) <= set(RECIPES)
    assert len(COMPARED) == len(set(COMPARED)) == 32
    assert {"realmlp", "tabm"} <= set(RECIPES) - set(COMPARED)  # they need an environment of their own
    assert {"evidential-paper-lambda0", "evidential-paper-lambda0.005", "evidential-paper-lambda0.05"} <= set(COMPARED)
    assert RECIPES["evidential-paper-lambda0.005"].changes == {"lam": 0.005}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("usnrt2", r"^recipe must be one of \['catboost', .*\] or 'module:Class', got 'usnrt2'$"),
        ("hnn?lr", r"^changes must read 'parameter=value', got 'lr' in 'hnn\?lr'$"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(ValueError, match=message):
        make_grid(["electrical"], [name])


def test_unknown_parts_are_named_when_the_model_is_built():
    with pytest.raises(ImportError, match=r"^recipe 'no_such_module:X' cannot be used: No module named"):
        get_recipe("no_such_module:X").build(0)
    with pytest.raises(ValueError, match=r"must name a class, but usnrt_experiments.constant:Missing has none$"):
        get_recipe("usnrt_experiments.constant:Missing").build(0)
    with pytest.raises(ValueError, match=r"must change parameters of ConstantNormal, got \['speed'\]$"):
        get_recipe("constant-normal?speed=1").build(0)


def test_the_fast_preset():
    model = get_recipe("usnrt-fast?max_leaves=4").build(3)
    assert model.get_params() == USNRTRegressor.fast(max_leaves=4, random_state=3, n_jobs=1).get_params()


def test_unknown_data_sets():
    with pytest.raises(ValueError, match=r"^name must be one of .*, got 'iris'$"):
        make_grid(["iris"], ["hnn"])
    with pytest.raises(ValueError, match=r"^dataset must read 'generated-KIND-ROWS', got 'generated-jump'$"):
        make_grid(["generated-jump"], ["hnn"])


def test_presets(monkeypatch, tmp_path):
    for name in ("electrical", "power", "blog", "gpu"):
        (tmp_path / f"{name}.zip").touch()
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path))
    paper = preset("paper")
    assert len(paper) == 32 * (5 + 5 + 1 + 1)
    assert [str(cell) for cell in paper[:2]] == ["electrical usnrt-paper seed 42", "power usnrt-paper seed 42"]
    assert len(preset("stability")) == 18 * 4
    assert [str(cell) for cell in preset("coverage")] == [
        f"{name} coverage seed 42" for name in ("electrical", "power", "gpu", "blog")
    ]
    quick = preset("quick")
    assert {cell.dataset for cell in quick} == {"electrical", "power"}
    assert len(quick) == 2 * 12 + 18
    with pytest.raises(ValueError, match=r"^preset must be one of \['paper', 'stability', .*\], got 'all'$"):
        preset("all")


def test_a_recipe_may_have_another_seed_than_its_split():
    model = get_recipe("hnn-paper?random_state=7").build(random_state=42)
    assert model.random_state == 7
    assert get_recipe("hnn-paper").build(random_state=42).random_state == 42
