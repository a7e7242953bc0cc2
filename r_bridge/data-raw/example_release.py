"""Makes inst/example-release, which the examples of the R package read: incomes that nobody has.

The folder is the public part of a release, as ``write`` writes it, with the manifest that ``read_release``
verifies it by.  Run this again whenever what ``write`` writes has changed: the seed makes the same synthetic files.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import surveysynth as ss

rng = np.random.default_rng(7)
n = 120
region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
gender = rng.choice(["f", "m"], n)
income = np.exp(10 + 0.2 * (region == "south") + 0.1 * (gender == "m") + rng.normal(0, 0.5, n)).round(-2)
weight = np.exp(np.log(50) - 0.3 * (np.log(income) - 10) + rng.normal(0, 0.2, n)).round(2)
frame = pd.DataFrame({"region": pd.Categorical(region), "gender": gender, "income": income, "weight": weight})
design = ss.SurveyDesign(frame, weights="weight", strata="region")
release = ss.synthesize(
    design, ss.FBS("income", "region + gender", prior="flat"), epsilon=12, m=3, population_total=6000,
    mechanism=ss.PseudoPosterior(), seed=1,
)
example = Path(__file__).parents[1] / "inst" / "example-release"
with tempfile.TemporaryDirectory() as folder:
    written = release.write(Path(folder) / "release", by=["region", "gender"])
    shutil.copytree(written / "public", example, dirs_exist_ok=True)
