"""The demo finds the noise of generated data, prints it, and names the figure it wrote."""

import numpy as np
import pytest

from usnrt import demo

SMALL = {"n_train": 2000, "n_test": 2000, "min_samples_leaf": 300, "max_epochs": 25, "verbose": 0}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a small run printed, and where."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("demo") / "not there yet"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        path = demo.run(folder, **SMALL)
    return printed.getvalue().splitlines(), path


def test_picture_and_report_are_written_and_named_last(told):
    lines, path = told
    assert lines[-2] == f"wrote {path}"
    assert lines[-1] == f"wrote {path.with_name('report.html')}"
    assert "Where is the model uncertain?" in path.with_name("report.html").read_text()
    assert path.name == "usnrt-demo.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert 20_000 < path.stat().st_size < 200_000


def test_the_summary_puts_what_was_found_beside_the_truth(told):
    text = "\n".join(told[0])
    for expected in ("threshold", "true boundary", "true std", "predicted std", "coverage of 90 %", "x1 > 0.4"):
        assert expected in text


def test_boundaries_and_noise_are_found():
    found = demo.find(**SMALL)
    assert found.splits["feature"][0] == "x0"
    assert found.splits["threshold"][0] == pytest.approx(0.5, abs=0.05)
    assert found.splits["true boundary"][0] == 0.5
    np.testing.assert_allclose(found.regions["predicted std"], [0.1, 0.4, 1.0], rtol=0.5)
    assert found.regions["rows"].sum() == 2000
    np.testing.assert_allclose(found.coverage, np.tile(demo.COVERAGES, (3, 1)), atol=0.15)


def test_a_split_that_no_boundary_explains_is_shown_as_such():
    found = demo.find(**{**SMALL, "max_epochs": 2, "alpha": 0.999})
    assert np.isnan(found.splits["true boundary"]).any()


def test_the_command_takes_a_folder(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(demo, "run", asked.append)
    demo.main(["--output", str(tmp_path)])
    demo.main([])
    assert asked == [str(tmp_path), "demo-output"]


@pytest.mark.parametrize(("package", "extra"), [("matplotlib", "plot"), ("jinja2", "report")])
def test_a_missing_package_is_named_before_anything_is_fitted(monkeypatch, tmp_path, capsys, package, extra):
    found = demo.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == package else found(name))
    monkeypatch.setattr(demo, "find", lambda *_, **__: pytest.fail("the model was fitted"))
    with pytest.raises(ImportError, match=rf"^the demo's \w+ needs {package}: pip install 'usnrt\[{extra}\]'$"):
        demo.run(tmp_path)
    assert capsys.readouterr().out == ""
