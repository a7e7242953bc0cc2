# %% [markdown]
# # Gallery
#
# Pictures of the package, each with the code that makes it. The file is a sample of real census workers that comes
# with the package. A release for publication has no seed.

# %%
import sys
import tempfile
from pathlib import Path

from IPython.display import SVG, Image

import surveysynth as ss

folder = Path(tempfile.mkdtemp())
design = ss.datasets.census.census_sample(2_000, seed=2000)
release = ss.synthesize(
    design, "income ~ division + education",
    epsilon=5, population_total=29_501, bounds=(0, 20_000), seed=2000,
)  # fmt: skip

# %% [markdown]
# ## A figure to publish
#
# Estimates of the release with their intervals; the words for those who do not see it are in the svg, and in a text
# file beside it.

# %%
SVG(release.plot(folder / "education.svg", by="education"))

# %% [markdown]
# ## The release beside the file
#
# For the agency alone: each estimate minus that of the confidential file, in standard errors of the release; and both
# distributions.

# %%
ss.compare(design, release).write(folder / "comparison")
SVG(folder / "comparison" / "estimates.svg")

# %%
SVG(folder / "comparison" / "distributions.svg")

# %% [markdown]
# ## What one record can say
#
# Lipschitz bounds of the records without and with privacy weights, as Figure 1 of Hu, Savitsky & Williams (2022a),
# for the two models of the paper on a simulated survey of doctorates. The largest bound with weights is what epsilon
# is made of.

# %%
import pandas as pd

from replication import figures

doctorates = ss.datasets.sdr_sample(n=1_000, seed=2024)
fits = {
    model.__name__.lower(): ss.fit(
        doctorates, model("salary", "field + gender", prior="flat"),
        epsilon=10.8, m=3, population_total=100_000, mechanism=ss.PseudoPosterior(), seed=2024,
    )
    for model in (ss.FBS, ss.FBP)
}  # fmt: skip
records = pd.concat(
    pd.DataFrame({"method": name, "unweighted": fit.risk, "weighted": fit.weighted.bounds})
    for name, fit in fits.items()
)
Image(figures.lipschitz_violins(records, folder / "bounds.png", title="Lipschitz bounds"))

# %% [markdown]
# ## Do the intervals hold?
#
# From the finished cells of the coverage study ([as tables](evidence/coverage.py)): `python
# benchmarks/coverage_figure.py docs/coverage.png`.

# %%
sys.path.append("benchmarks")
import coverage_figure

coverage_figure.main(folder / "coverage.png")
Image(folder / "coverage.png")
