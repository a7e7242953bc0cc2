# %% [markdown]
# # A first release: weekly income of census workers
#
# An agency has a sample of workers and wants to publish their mean weekly income by census division and education. The
# answers are confidential. This document goes the whole way, from the file to the published table, and says at each
# step what is public and what is not.
#
# The "confidential" file is drawn from a real population, 29,501 workers of a US Census 2000 extract, so that in the
# end we can compare with the truth. An agency cannot.
#
# Run it as a script (`python vignettes/first_release.py`), or as a notebook in an editor that knows `# %%` cells.

# %%
import tempfile
from pathlib import Path

import surveysynth as ss
from surveysynth.datasets.census import census_sample, census_workers

SEED = 2000  # so that this document stays the same; a release for publication has no seed

# %% [markdown]
# ## The design
#
# A `SurveyDesign` is a data frame and the roles of its columns. Here: strata are the nine census divisions, and within
# each the sample was drawn with probability proportional to experience. The design validates its file once, when it is
# made; whatever is wrong is said with the column, the number of rows and their row numbers, never with a value.

# %%
design = census_sample(n=2000, seed=SEED)
print(design)
confidential = ss.estimate(design, "income", by="education", statistic="mean")
print(confidential.round(1).to_string(index=False))

# %% [markdown]
# Points and standard errors are those of R: `svyby(~income, ~education, design, svymean)` on
# `svydesign(~1, strata = ~division, weights = ~weight, data = d)`.
#
# ## What would it cost?
#
# `privacy_cost` is a dry run. It fits the model, and says which Lipschitz bound, hence which epsilon, comes out;
# nothing is released. `mean_alpha` is the share of the records' information that the privacy weights leave: the
# price of a small epsilon. Its numbers are computed from the confidential file and are not for publication.

# %%
model = ss.FBS("income", "division + education", prior="flat")
for epsilon in (36, 18, 10.8, 7.2):
    p = ss.privacy_cost(design, model, epsilon=epsilon, m=3, seed=SEED)
    print(f"epsilon {epsilon:5.1f}: c1 = {p.c1:.3f}, Lipschitz bound {p.delta:.3f}, mean weight {p.mean_alpha:.2f}")

# %% [markdown]
# At 10.8, the epsilon of the paper that FBS comes from (three data sets at a Lipschitz bound of 1.8), about half of the
# information is left. It is not taken evenly: the records in the tails, the easiest to recognise, lose the most.
#
# ## The release
#
# For the release itself we take the paper's prior. Division and education are predictors, so they are public. The
# population total is public as well, and is given; otherwise the files would give away the sum of the weights, which
# epsilon does not cover, and the report would say so.

# %%
release = ss.synthesize(
    design,
    ss.FBS("income", "division + education"),
    epsilon=10.8,
    m=3,
    population_total=29_501,
    public=["division", "education"],
    seed=SEED,
    mechanism=ss.PseudoPosterior(),  # of the papers; without it releases are strict: docs/strict.md
)
print(release.privacy)

# %% [markdown]
# The report is what a lawyer will read. Note what it does not claim: the guarantee is asymptotic, it is for one record
# added or removed (twice the epsilon for one record replaced), and it takes some things as public.
#
# ## The tables
#
# Each of the three files is a `SurveyDesign` of its own, with its own smoothed weights. `tables` estimates all of them
# and combines. A column `flag` holds what an editor should know. `min_cell` is a quality rule, not protection: whoever
# has the synthetic files can compute the cells that it suppresses.

# %%
table = release.tables(by=["division", "education"], min_cell=15, cv_limit=0.1)
means = table[(table["statistic"] == "mean") & (table["division"] == "all")]
print(means.drop(columns=["division", "outcome"]).round(1).to_string(index=False))
print()
print(table.loc[table["flag"] != "", "flag"].value_counts().to_string())

# %% [markdown]
# ## Is it any good?
#
# Only here do we know the population.

# %%
truth = census_workers().groupby("education", observed=True)["income"].mean()
for level, value in truth.items():
    c = confidential[confidential["education"] == level].iloc[0]
    r = means[means["education"] == level].iloc[0]
    print(
        f"{level:>18}: population {value:6.0f}, confidential {c.estimate:6.0f} (se {c.se:3.0f}), "
        f"released {r.estimate:6.0f} (se {r.se:3.0f})"
    )

# %% [markdown]
# The released means follow the population, with standard errors that are smaller than the confidential ones: a normal
# model on the log scale is smoother than the incomes themselves. That is also its weakness. Incomes have heavier tails
# than the lognormal distribution, and privacy weights press on the tails, so means come out low, above all for the most
# educated. Counts and medians suffer less. The report says so, and so should a table's footnote.
#
# ## The folder
#
# `write` makes `public/` and `internal/` in one step. Everything in `public/` may be published; `internal/` holds the
# record-level risks, the unused draws and the exact epsilon, and only its owner can open it.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = release.write(Path(folder) / "income-2000", by=["division", "education"])
    for file in sorted(path.rglob("*")):
        if file.is_file():
            print(f"{file.relative_to(path)!s:32} {file.stat().st_size:>9,} bytes")
    back = ss.read_release(path)
    print(back)

# %% [markdown]
# From here an R user goes on with `read_release()` of the package in `r_bridge/`, and any reader with the csv files:
# they are ordinary weighted survey files.
