# %% [markdown]
# # Censored releases
#
# A strict guarantee, or an asymptotic one? This page puts five mechanisms to work on one file and shows what each of
# them bounds, what it leaves open and what it does to the numbers. In the order of the page:
#
# 1. the pseudo posterior, this package's default: risky records count less;
# 2. Weighted-e: records that are still too risky are left out;
# 3. the censored mechanism: what a record adds to the log likelihood is clamped, and nobody can add more;
# 4. both together: records are weighted down first and clamped then, so that fewer need it;
# 5. the same under a policy, made from last year's file.
#
# At the end, the perturbed histogram, which needs no model. Mechanisms 1 to 4 and the histogram are those of Hu,
# Williams & Savitsky (2025, *Mechanisms for Global Differential Privacy under Bayesian Data Synthesis*; "the paper"
# below).
#
# The file is made up: a simple random sample of 2,000 of 400,000 tenant households, and the share of income that goes
# into rent. A share lies between 0 and 1, so the model is `BetaRegression`, and the paper's own example is of this
# kind. The runs have a seed, so that the page stays the same, except for the histogram, which takes none. A release for
# publication has none.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from great_tables import GT

import surveysynth as ss
from replication.censoring.study import ecdf_differences

SEED = 2024
N, n = 400_000, 2_000
EPSILON, M = 8, 2
LANDLORDS = ["social", "private", "employer"]


def survey(year):
    """One year's sample: many small shares, a long tail of large ones."""
    rng = np.random.default_rng([SEED, year])
    landlord = rng.choice(LANDLORDS, n, p=[0.45, 0.45, 0.10])
    mean = pd.Series(landlord).map({"social": 0.16, "private": 0.24, "employer": 0.10}).to_numpy()
    frame = pd.DataFrame({"landlord": landlord, "share": rng.beta(3 * mean, 3 * (1 - mean)), "weight": N / n})
    return ss.SurveyDesign(frame, weights="weight")


file = survey(2024)
model = ss.BetaRegression("share", "landlord", bounds=(0, 1))
own = file.frame["share"]
print(f"{n:,} households; mean share {own.mean():.3f}, median {own.median():.3f}, largest {own.max():.2f}")


def report(release, *words):
    """Print the lines of a privacy report that hold one of these words."""
    print(*(line.strip() for line in str(release.privacy).splitlines() if any(w in line for w in words)), sep="\n")


# %% [markdown]
# ## 1. What has to be bounded
#
# A release is m posterior draws and a synthetic file from each. What a household can do to a draw is what it adds to
# the log likelihood. If that is never more than Delta, up or down, m draws spend epsilon = 2 Delta m, where files
# differ in whether one household's values take part. So for epsilon 8 and two files Delta may be 2. Without protection
# it is much more:

# %%
loose = ss.privacy_cost(file, model, c1=1e6, m=M, seed=SEED)
print(f"no privacy weights: Lipschitz bound {loose.delta:.1f}, epsilon {loose.epsilon:.0f}; {EPSILON} needs 2")

# %% [markdown]
# Who adds that much? The households that pay next to nothing: the density is high there, and rises without end
# towards 0. Households with very large shares come next.
#
# ## 2. Five mechanisms, one epsilon
#
# `fit` does the work of a release and keeps what is internal: the bound, the privacy weights, how many records were
# touched. The policy (section 5) comes from last year's file, and is made in the same breath.

# %%
policy = ss.Policy.from_historical(
    survey(2023), model, epsilon=EPSILON, m=M, map="linear", source="tenants 2023", population_total=N, seed=SEED
)
asked = {"population_total": N, "seed": SEED}
budget = {"epsilon": EPSILON, "m": M, **asked}
fits = {
    "PseudoPosterior()": ss.fit(file, model, mechanism=ss.PseudoPosterior(), **budget),
    "WeightedE()": ss.fit(file, model, mechanism=ss.WeightedE(), **budget),
    "Censored()": ss.fit(file, model, mechanism=ss.Censored(), **budget),
    "Censored(weighted=True)": ss.fit(file, model, mechanism=ss.Censored(weighted=True), **budget),
    "policy=": ss.fit(file, policy=policy, **asked),
}
rows = [(name, f.kind, f.delta, f.weighted.alpha.mean(), f.weighted.invocations) for name, f in fits.items()]
taken = pd.DataFrame(rows, columns=["mechanism", "kind", "Delta", "weight", "touched"]).astype({"touched": "Int64"})
(
    GT(taken, rowname_col="mechanism").tab_stubhead("mechanism")
    .tab_header("What each mechanism takes", f"epsilon {EPSILON}, {M} files, {n:,} households")
    .cols_label(kind="guarantee", weight="mean weight", touched="households touched").cols_align("left", "kind")
    .fmt_number(["Delta", "weight"], decimals=2).fmt_integer("touched").sub_missing(missing_text="")
)  # fmt: skip

# %%
figure, panels = plt.subplots(1, 4, figsize=(9.5, 3.2), layout="constrained", sharex=True, sharey=True)
weighting = ["PseudoPosterior()", "WeightedE()", "Censored(weighted=True)", "policy="]
for axes, name in zip(panels, weighting, strict=True):
    axes.plot(100 * own.clip(lower=1e-5), fits[name].weighted.alpha, ".", color="#0b6fa4", alpha=0.3, mec="none")
    axes.set_title(name, fontsize=9)
    axes.set(xscale="log", xlim=(0.0008, 110), ylim=(-0.03, 1.03))
    axes.set_xticks([0.001, 0.1, 10], ["0.001", "0.1", "10"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("privacy weight")
figure.supxlabel("share of income that is rent, percent; 0.001 stands for less, too", fontsize=10)
figure.suptitle("Privacy weights of the households: three bands, one for each landlord")
plt.show()

# %% [markdown]
# The picture leaves out the mechanism that weighs all households alike. The smallest shares lose most of their weight,
# and then the largest. Weighted-e gives 0 to those it leaves out: small shares, but not the smallest, whose weights
# were low enough already. "Touched" are the households that Weighted-e left out, or whose contribution is at the clamp
# in one posterior draw or more. (Of the clamp alone, this is the count that comes to the paper's printed numbers.)
# Three things to see:
#
# - Delta of the first two was **found**: it is the largest contribution in 4,000 draws, on this file. Delta of the
#   others was **set**: it is the clamp, whatever the file and however many draws.
# - Unweighted, the clamp touches far more households than weighted. It is a blunt tool.
# - Under the policy hardly anybody is touched, or nobody: c1 was tuned so that last year's largest bound came just
#   below the clamp. The weights are smaller for it. With c1 = 1, as in the line above it, more would be touched and
#   weigh more.
#
# ## 3. What strict means
#
# One more household moves in, and all but 0.01% of its income is rent. Here is what it costs to release the same two
# files from the pseudo posterior when the constants of the weights are held: c1 = 0.5 under the linear map, which is
# the paper's, and what was found above under the inverse map, our default.

# %%
more = pd.DataFrame({"landlord": ["employer"], "share": [0.9999], "weight": [N / n]})
neighbour = ss.SurveyDesign(pd.concat([file.frame, more], ignore_index=True), weights="weight")
held = {
    "linear": (ss.PseudoPosterior(map="linear", c1=0.5), None),
    "inverse": (ss.PseudoPosterior(c1=fits["PseudoPosterior()"].weighted.c1), EPSILON),
}
spent = {}
for name, (mechanism, epsilon) in held.items():
    two = [ss.fit(d, model, mechanism=mechanism, epsilon=epsilon, m=M, **asked).delta for d in (file, neighbour)]
    spent[f"pseudo posterior, {name} map"] = [2 * M * delta for delta in two]
spent["the clamp"] = 2 * [2 * M * fits["Censored()"].delta]
(
    GT(pd.DataFrame(spent, index=["without", "with"]).T.rename_axis("of").reset_index(), rowname_col="of")
    .tab_header("Epsilon of the same two files", "without and with one household more").fmt_number(decimals=2)
    .cols_label({"with": "with it", "without": "without the household"})
)  # fmt: skip

# %% [markdown]
# Under the linear map the new household is the riskiest, and the scale of risk runs up to it. So everybody else looks
# safer than before, and gets more weight. The inverse map looks at one record at a time, and its bound moves by
# little; that is one reason why it is the default. But it moves, too: with the file, and from one run of the sampler
# to the next. (That the first number is not the 8 that was tuned for is the luck of another 4,000 draws. A release is
# refused where its own bound is above.) The bound settles as samples grow, and this is what "asymptotic" means. The
# clamp cannot move.
#
# Read what the reports say of it. `strict given alpha` is honest about a gap: where weights are computed from this
# file, a household has a say in the weights of others (by the largest and the least risk, and by the fit behind the
# risks), and the clamp does not cover that.

# %%
releases = {name: fit.release() for name, fit in fits.items()}
for name, release in releases.items():
    print(f"--- {name}")
    report(release, "privacy weights (map", "clamped to", "come from a policy", "whether there is a release")

# %% [markdown]
# A strict guarantee has a price in the call, too: `population_total=` must be given, because the sum of the weights
# would reveal every household's weight. And whether the sampler's diagnostics pass still depends on the file. Every
# report says so.
#
# ## 4. What it does to the numbers
#
# The perturbed histogram joins here. It has no model and no predictors: a noisy count of each of `bins=` bins, then
# values uniform within bins. Its noise makes it strict, for the same epsilon. Twice, because the paper names two
# numbers of bins: log(n) and sqrt(n). The distances are those of section 4.3, between the empirical distributions.

# %%
many = {"population_total": N, "bounds": (0, 1), "epsilon": EPSILON, "m": M}
for bins, label in ((8, "histogram, log(n) bins"), (45, "histogram, sqrt(n) bins")):
    releases[label] = ss.perturbed_histogram(file, "share", bins=bins, **many)
STATISTICS = {
    "mean": np.mean, "median": np.median,
    "q15": lambda y: np.quantile(y, 0.15), "q90": lambda y: np.quantile(y, 0.9),
}  # fmt: skip
rows = [{"of": "the file", **{name: statistic(own) for name, statistic in STATISTICS.items()}}]
for name, release in releases.items():
    files = [synthetic.numeric("share") for synthetic in release.datasets]
    largest, squared = np.mean([ecdf_differences(own, y) for y in files], axis=0)
    numbers = {key: np.mean([statistic(y) for y in files]) for key, statistic in STATISTICS.items()}
    rows.append({"of": name, "largest": largest, "squared": squared, **numbers})
distances = pd.DataFrame(rows)[["of", "largest", "squared", *STATISTICS]]
(
    GT(distances, rowname_col="of")
    .tab_header("Share of income that is rent", "distance from the file, and statistics; means of two files")
    .tab_spanner("distance of the ECDF", ["largest", "squared"])
    .cols_label(squared="mean square", q15="15th percentile", q90="90th percentile")
    .fmt_number(decimals=3).fmt_number("squared", decimals=5).sub_missing(missing_text="")
)  # fmt: skip

# %% [markdown]
# The model is right: the shares were drawn from it. What the first five lose, they lose to privacy: weights and clamp
# press on the tails, here on the smallest shares above all, and the median of what is left is too high. With sqrt(n)
# bins the histogram is nearest. It is one outcome, and 2,000 households for 45 bins. With log(n) bins the width of
# the bins makes it worse than any of them in its lower quantiles.
#
# And by landlord, which the models know and the histogram does not:

# %%
by = file.frame.groupby("landlord")["share"].mean()
table = pd.DataFrame({"the file": by})
for name in fits:
    means = releases[name].tables(by="landlord", statistic="mean").set_index("landlord")["estimate"]
    table[name] = means[by.index].astype(float)
landlords = table.T.rename_axis(index="of", columns=None).reset_index()
(
    GT(landlords, rowname_col="of").fmt_number(decimals=3)
    .tab_header("Mean share of income that is rent", "by landlord")
)  # fmt: skip

# %% [markdown]
# A histogram would have the mean of the whole in each row. The clamp alone draws the groups together most.
#
# The distances as a picture: the empirical distribution of a synthetic file less that of the file. A flat line at 0
# would be a perfect copy. Grey lines are the other mechanisms.

# %%
grid = np.linspace(0, 0.9, 400)
apart = {
    name: [100 * ((release.datasets[0].numeric("share") <= x).mean() - (own <= x).mean()) for x in grid]
    for name, release in releases.items()
}
figure, panels = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained", sharex=True, sharey=True)
for axes, name in zip(panels.flat, apart, strict=False):
    for other in apart.values():
        axes.plot(100 * grid, other, color="#8f8f8f", lw=0.8)
    axes.plot(100 * grid, apart[name], color="#0b6fa4", lw=1.8)
    axes.axhline(0, color="black", lw=0.8)
    axes.set_title(name, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
panels[1, 3].set_visible(False)
panels[0, 3].tick_params(labelbottom=True)
figure.suptitle("Empirical distribution of one synthetic file less that of the file")
figure.supxlabel("share of income that is rent, percent", fontsize=10)
figure.supylabel("percentage points", fontsize=10)
plt.show()

# %% [markdown]
# ## 5. A policy
#
# Section 4.5 of the paper advises to set epsilon and the constants of the weights on a historical file. A policy is
# that, and one thing more: it keeps the posterior draws of the historical file, and gives this year's households their
# risks under those. So the weight of a household depends on the household alone, and the label is `strict`.

# %%
print(policy)
clamped = fits["policy="].weighted.invocations
print(f"of this year's households the clamp touches {clamped} ({clamped / n:.1%})")

# %% [markdown]
# `policy.save("tenants.policy")` and `ss.Policy.load(...)` keep it between years. It is confidential, as last year's
# file is: it holds draws made from it. Make a new one when the questionnaire changes, and not because this year's
# numbers look better with it: a policy that was chosen by this file is not a policy.
#
# ## 6. Which one
#
# | you need | take |
# |---|---|
# | the best numbers, and can live with an asymptotic guarantee | `PseudoPosterior()`, the default |
# | a guarantee that does not rest on the sample size, and had a similar survey before | `policy=` |
# | the same, in the first year | `Censored()`, and compare the release with your own tables |
# | the paper's middle way, and can say "given the weights" | `Censored(weighted=True)`; c1 < 1 where many are touched |
# | one outcome, hardly any predictors, many records | `perturbed_histogram`, sqrt(n) bins |
# | to repeat the paper | `WeightedE()`; the paper cuts off once, here it is repeated until the bound holds |
#
# Weighted-e is there for comparison. Leaving households out moves the fit, which raises the bounds of others, which
# are left out next. At small epsilon it loses more than the clamp does, for a weaker guarantee.
#
# One file says little about mechanisms. In a checkout `python -m replication.censoring --out study/` repeats the
# simulation of the paper, 100 files from Beta(0.5, 3), with the paper's printed numbers beside; with `--data` it
# compares the mechanisms on a file of yours, in a folder that is not for publication.
