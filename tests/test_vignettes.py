"""Every Python vignette runs from top to bottom."""

import runpy
from pathlib import Path

import pytest

VIGNETTES = sorted((Path(__file__).parents[1] / "vignettes").glob("*.py"))


def test_there_are_vignettes():
    assert [v.name for v in VIGNETTES] == ["first_release.py"]


@pytest.mark.parametrize("vignette", VIGNETTES, ids=lambda v: v.stem)
def test_vignette_runs(vignette, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(vignette), run_name="__main__")
    said = capsys.readouterr().out
    assert "epsilon = 10." in said
    assert not list(tmp_path.iterdir())  # it cleans up after itself
