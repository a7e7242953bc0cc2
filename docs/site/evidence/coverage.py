# %% [markdown]
# # Do the intervals hold?
#
# Samples are drawn from a population that is known as a whole, each is released, and 95% intervals are held against
# the truth. Each cell below (population, records, mechanism, epsilon) was made by
#
# ```sh
# surveysynth study coverage --out folder --n 2000 --epsilon 10.8 --mechanisms strict \
#     --replicates 200 --seed 20261123
# ```
#
# with its own values, and is kept in `benchmarks/coverage_cells/` with the commit that made it; [its
# README](../benchmarks/coverage_cells/README.md) says which cell came from which version. What the numbers mean, and
# what they leave open: [results](../docs/results.md).

# %% tags=["hide-input"]
import pandas as pd
from great_tables import GT

cells = pd.read_csv("benchmarks/coverage_cells/margins.csv")
NAMES = {
    "confidential": "the sample itself",
    "strict": "Strict",
    "strict-earlier": "Strict, beside last year's noisy tables",
    "pseudo-debias": "PseudoPosterior, debias=True",
    "pseudo": "PseudoPosterior",
    "laplace": "Laplace tables",
}


def table(population: str, statistic: str, n: int = 2_000) -> GT:
    """Coverage by margin, with its Monte Carlo error; where a cell was run twice, the run with more samples."""
    mine = cells[(cells["population"] == population) & (cells["statistic"] == statistic) & (cells["n"] == n)]
    most = mine.groupby(["method", "epsilon"])["samples"].transform("max")
    mine = mine[(mine["samples"] == most) & mine["method"].isin(NAMES)].drop_duplicates(
        ["method", "epsilon", "margin"], keep="last"
    )
    held = [f"{c:.3f} ± {e:.3f}".replace("0.", ".") for c, e in zip(mine["coverage"], mine["coverage_se"], strict=True)]
    mine = mine.assign(held=held, method=pd.Categorical(mine["method"].map(NAMES), list(NAMES.values()), ordered=True))
    wide = mine.pivot(index=["method", "epsilon", "samples", "commit"], columns="margin", values="held").reset_index()
    return (
        GT(wide.sort_values(["method", "epsilon"]).astype({"method": str}), groupname_col="method")
        .tab_header(f"{population.capitalize()}, {n:,} records: 95% intervals of {statistic}s that hold the truth")
        .fmt_number("epsilon", drop_trailing_zeros=True)
        .sub_missing(missing_text="")
        .tab_options(table_font_size="14px", table_width="100%", heading_align="left")
    )


# %% [markdown]
# ## Workers
#
# Margins are those of the study; "all" is the population. After ± stands one Monte Carlo error.

# %% tags=["hide-input"]
table("workers", "mean")

# %% tags=["hide-input"]
table("workers", "count")

# %% [markdown]
# Samples of 10,000.

# %% tags=["hide-input"]
table("workers", "mean", n=10_000)

# %% [markdown]
# ## Households

# %% tags=["hide-input"]
table("households", "mean")

# %% tags=["hide-input"]
table("households", "count")

# %% [markdown]
# ## Counts, shares and positive amounts
#
# Visits to a doctor, shares of a household's income, and pay. Mechanisms other than Strict fit a negative binomial,
# which visits are not quite; a beta regression; and a gamma regression, whose one shape is wrong for some jobs, with
# privacy and without.

# %% tags=["hide-input"]
table("visits", "mean")

# %% tags=["hide-input"]
table("shares", "mean")

# %% tags=["hide-input"]
table("earnings", "mean")

# %% [markdown]
# ## How far off, and how long
#
# Bias over the truth; root mean square error and length of intervals over those of the confidential sample; means
# over the levels of a margin. Strict alone.

# %% tags=["hide-input"]
strict = cells[(cells["method"] == "strict") & (cells["statistic"] == "mean")]
shown = ["population", "n", "epsilon", "margin", "samples"]
shown += ["bias", "rmse_ratio", "length_ratio", "own_coverage", "coverage"]
(
    GT(strict[shown].sort_values(["population", "n", "epsilon"]))
    .cols_label(rmse_ratio="RMSE ratio", length_ratio="length ratio", own_coverage="the sample's coverage")
    .fmt_number(["bias", "own_coverage", "coverage"], decimals=3)
    .fmt_number(["rmse_ratio", "length_ratio"], decimals=2)
    .fmt_integer("n")
    .tab_options(table_font_size="14px", table_width="100%")
)
