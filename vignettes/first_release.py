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
# Run it as a notebook, in an editor that knows `# %%` cells or by `jupytext --to notebook`.

# %%
import tempfile
from html import escape
from pathlib import Path

import pandas as pd
from great_tables import GT
from IPython.display import HTML, SVG

import surveysynth as ss
from surveysynth.datasets.census import census_sample, census_workers

SEED = 2000  # so that this document stays the same; a release for publication has no seed
folder = tempfile.TemporaryDirectory()

# %% [markdown]
# ## The design
#
# A `SurveyDesign` is a data frame and the roles of its columns. Here: strata are the nine census divisions, and within
# each the sample was drawn with probability proportional to experience. The design validates its file once, when it is
# made; whatever is wrong is said with the column, the number of rows and their row numbers, never with a value.

# %%
design = census_sample(n=2000, seed=SEED)
print(design)

# %%
confidential = ss.estimate(design, "income", by="education", statistic="mean")
numbers = ["estimate", "se", "ci_low", "ci_high"]
(
    GT(confidential[["education", *numbers, "df", "n"]], rowname_col="education")
    .tab_header("Mean weekly income", "of the confidential sample, in dollars")
    .fmt_number(numbers, decimals=0).fmt_integer(["df", "n"])
)  # fmt: skip

# %% [markdown]
# Points and standard errors are those of R: `svyby(~income, ~education, design, svymean)` on
# `svydesign(~1, strata = ~division, weights = ~weight, data = d)`.
#
# ## The plan
#
# A plan says what will be released and how it is protected, before anything of the file is spent. What is not given is
# chosen from public facts and arguments alone, and the plan says why.

# %%
plan = ss.Plan(design, "income ~ division + education", by=["division", "education"])
print(plan)

# %% [markdown]
# Three things only the agency can know. The population total comes from a register, the bounds from public knowledge:
# hardly any weekly wage is above 20,000 dollars, and those that are count as that. Epsilon is a decision, and a table
# says beforehand what each one buys: how large standard errors will be, over those of the file itself. It comes from
# releases of made-up files that have the survey's public columns, so no confidential value is looked at.

# %%
public = {"population_total": 29_501, "bounds": (0, 20_000)}
costs = {
    epsilon: ss.expected_errors(design, "income ~ division + education", epsilon=epsilon, by="education", **public)
    for epsilon in (1, 5)
}
of_means = {epsilon: costs[epsilon][lambda t: t["statistic"] == "mean"].set_index("education") for epsilon in costs}
ratios = pd.DataFrame({f"epsilon = {epsilon}": table["ratio"] for epsilon, table in of_means.items()})
(
    GT(ratios.reset_index(), rowname_col="education")
    .tab_header("What an epsilon buys", "expected standard error of a mean, over that of the file")
    .tab_stubhead("education").fmt_number(decimals=2)
)  # fmt: skip

# %%
plan = plan.set(epsilon=5, population_total=29_501, bounds=(0, 20_000), zeros=False, title="Weekly income of workers")
print(plan)

# %% [markdown]
# `plan.check(inside=True)` looks at the confidential values, too: heaps, the shape of residuals, expected coefficients
# of variation. What it says is for the agency alone.

# %%
print("\n".join(plan.check(inside=True).inside))

# %% [markdown]
# `plan.save("plan.toml")` writes all of it as one file with a comment at every entry, for whoever has to sign it. The
# same file makes the same release in a terminal (`surveysynth release plan.toml`) and in R (`release_plan()`).
#
# ## The release

# %%
release = plan.release(seed=SEED)
print(release.privacy)

# %% [markdown]
# The report is what a lawyer will read. The guarantee is strict: it holds at any number of records. The file was
# counted by cells, the counts have noise, and all else is computed from these noisy counts, so that more data sets cost
# nothing: `release.more(10)`. Note what the report takes as public.
#
# ## The tables
#
# Each of the files is a `SurveyDesign` of its own, with its own weights. `tables` estimates all of them and combines. A
# column `flag` holds what an editor should know. `min_cell` is a quality rule, not protection: whoever has the
# synthetic files can compute the cells that it suppresses.

# %%
table = release.tables(by=["division", "education"], min_cell=15, cv_limit=0.1)
means = table[(table["statistic"] == "mean") & (table["division"] == "all")]
(
    GT(means[["education", *numbers, "df", "n", "flag"]], rowname_col="education")
    .tab_header("Mean weekly income", "of the release, in dollars")
    .fmt_number(numbers, decimals=0).fmt_integer(["df", "n"])
)  # fmt: skip

# %% [markdown]
# `write_tables` makes what an office prints: a workbook, or a page with titles, symbols, notes and what privacy cost.
# The figure is made of the same numbers; the words for those who do not see it are in a text file beside it.

# %%
page = release.write_tables(Path(folder.name) / "income.html", by="education", cv_limit=0.1)
HTML(f'<iframe srcdoc="{escape(page.read_text(encoding="utf-8"))}" width="100%" height="600"></iframe>')

# %%
SVG(release.plot(Path(folder.name) / "income.svg", by="education"))

# %% [markdown]
# ## Is it any good?
#
# An agency compares the release with its own file; that stays inside.

# %%
side = plan.compare(release).cells
held = side.groupby("statistic").agg(cells=("holds", "size"), holds=("holds", "mean"), se_ratio=("se_ratio", "median"))
(
    GT(held.reset_index(), rowname_col="statistic")
    .tab_header("The release beside the file", "of all cells by division, by education and of all")
    .cols_label(holds="intervals that hold the file's estimate", se_ratio="standard error over the file's, median")
    .fmt_percent("holds", decimals=0).fmt_number("se_ratio", decimals=2)
)  # fmt: skip

# %% [markdown]
# Only here do we know the population.

# %%
truth = census_workers().groupby("education", observed=True)["income"].mean()
beside = pd.DataFrame({
    "population": truth,
    "confidential": confidential.set_index("education")["estimate"],
    "se": confidential.set_index("education")["se"],
    "released": means.set_index("education")["estimate"],
    "ci_low": means.set_index("education")["ci_low"],
    "ci_high": means.set_index("education")["ci_high"],
}).loc[truth.index]  # fmt: skip
(
    GT(beside.rename_axis("education").reset_index(), rowname_col="education")
    .tab_header("Mean weekly income", "of the population, the sample and the release, in dollars")
    .tab_spanner("95% interval of the release", ["ci_low", "ci_high"])
    .cols_label(se="its se", ci_low="from", ci_high="to").fmt_number(decimals=0)
)  # fmt: skip

# %% [markdown]
# One release is one draw. Over 200 samples, intervals of means by education and by division hold .99 of the truths,
# where those of the confidential samples hold .92 and .93 (`docs/results.md`).
#
# The papers' own mechanism is `mechanism="pseudo-posterior"`. Its guarantee is asymptotic, and at an epsilon this small
# its privacy weights leave too little of the file: `censored_releases.py` and `fbs_or_fbp.py` compare.
#
# ## The folder
#
# `write` makes `public/` and `internal/` in one step. Everything in `public/` may be published; `internal/` holds the
# row order, and only its owner can open it.

# %%
path = plan.write(release, Path(folder.name) / "income-2000")
files = sorted(file for file in path.rglob("*") if file.is_file())
GT(pd.DataFrame({"file": [str(f.relative_to(path)) for f in files], "bytes": [f.stat().st_size for f in files]})
   ).fmt_integer("bytes")  # fmt: skip

# %%
print(ss.read_release(path))
folder.cleanup()

# %% [markdown]
# From here an R user goes on with `read_release()` of the package in `r_bridge/`, and any reader with the csv files:
# they are ordinary weighted survey files.
