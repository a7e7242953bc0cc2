"""Real populations from which samples are drawn.  The outcomes are amounts, counts, shares or categories.

``eusilc`` is the data set of Austrian persons and households of this name in the R package laeken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...choices import StudyPopulation
from ...datasets.census import TOP_CODE, census_workers
from ...datasets.draw import draw_sample
from ...design.formula import formula_columns
from ...design.survey_design import SurveyDesign
from ...errors import InputError
from ...estimation import estimate
from ...measuring.outcome import Outcome
from ...models.base import Synthesizer
from ...models.beta import BetaRegression
from ...models.counts import NegativeBinomialRegression
from ...models.gamma import GammaRegression
from ...models.mixture.model import Mixture
from ...models.multinomial import MultinomialRegression
from ...validation import one_of

Floats = NDArray[np.float64]

STATISTICS = ("mean", "total", "count")
AMOUNTS, CATEGORIES = (*STATISTICS, "quantile", "gini", "poverty_rate"), ("proportion", "count")
QUANTILES = 0.1, 0.5, 0.9
POPULATION_SEED = 2026  # resampled populations do not depend on the seed of a study
HOUSEHOLDS, AGES, ADULTS = 30_000, [0, 35, 50, 65, 120], [16, 30, 45, 60, 120]
POOR, YES_OR_NO = 0.6, ["yes", "no"]  # poverty line as a share of the median income
ACTIVITIES = {1: "full time", 2: "part time", 3: "unemployed", 5: "retired"}  # codes of column pl030 in eusilc
ANY_ACTIVITY = [*ACTIVITIES.values(), "other"]
PSU, TAKE = 40, 20  # units of an artificial PSU, in the population and in a sample
ALIKE = 3.0  # ratio of noise to outcome, in the ranks by which units form PSUs; the icc is about .07
ONE = "weight of one unit"
COINSURANCE, PLANS = [-1.0, 0.1, 3.9, 5.0], ["free", "some", "most"]  # cuts of log(coinsurance in percent + 1)


@dataclass(frozen=True, eq=False)
class RealPopulation:
    """A population in which every value is known, and the design by which it is sampled.

    Attributes
    ----------
    name : str
    frame : pandas.DataFrame
    formula : str
        Formula of the models.  There is a table by each predictor, called a margin.
    schema : Outcome
        Public facts about the outcome, for strict releases.
    strata : str
        Column of strata, which is a predictor.
    size : str
        Column with the measure of size, to which inclusion probabilities are proportional.
    psu : str, optional
        Column of PSUs.  If given, samples have two stages.
    take : int or str
        Number of units drawn from a PSU, or the column with this number.
    unit : str, optional
        Column of the units that epsilon protects, if these are groups of records.
    weight : {"synthesize", "public"}
        Whether strict releases synthesize the weight or publish it as it is.  It is "public" in populations in which
        all records of a household, or of a stratum, have the same weight.
    statistics : tuple of str
        Statistics of the tables.
    model : Synthesizer, optional
        Model for mechanisms that fit a model to records, all but ``Strict()`` and Laplace tables.  By default it is
        :class:`surveysynth.FBS`, a joint model of an amount and the weight.
    """

    name: str
    frame: pd.DataFrame
    formula: str
    schema: Outcome
    strata: str
    size: str
    psu: str | None = None
    take: int | str = TAKE
    unit: str | None = None
    weight: Literal["synthesize", "public"] = "synthesize"
    statistics: tuple[str, ...] = STATISTICS
    model: Synthesizer | None = None

    @property
    def outcome(self) -> str:
        """Name of the outcome."""
        return self.formula.split("~")[0].strip()

    @property
    def bounds(self) -> tuple[float, float]:
        """Public lowest and highest outcome.  Raise InputError for a category, which has no bounds."""
        if self.schema.bounds is None:
            raise InputError(f"{self.outcome!r} is a category, which has no bounds")
        return self.schema.bounds

    @property
    def asked(self) -> dict[str, Any]:
        """Keyword arguments of :func:`surveysynth.estimate` that select the statistics of the study."""
        return {"statistic": self.statistics} | ({"quantiles": QUANTILES} if "quantile" in self.statistics else {})

    @property
    def margins(self) -> tuple[str, ...]:
        """The predictors.  For each predictor there is a table of estimates by its categories."""
        return tuple(formula_columns(self.formula.split("~")[1]))

    def sample(self, n: int, seed: int) -> SurveyDesign:
        """Draw a stratified sample of n units with probability proportional to size."""
        stages: dict[str, Any] = {} if self.psu is None else {"psu": self.psu, "take": self.take}
        rng = np.random.default_rng(seed)
        return draw_sample(self.frame, n=n, strata=self.strata, size=self.size, rng=rng, **stages)

    def truths(self) -> pd.DataFrame:
        """Return the true values, in columns ``margin`` ("all" for the population), ``level, statistic, truth``."""
        everybody = SurveyDesign(self.frame.assign(**{ONE: 1.0}), weights=ONE)
        table = by_margin(lambda margin: estimate(everybody, self.outcome, [margin], **self.asked), self.margins)
        return table[["margin", "level", "statistic", "estimate"]].rename(columns={"estimate": "truth"})


def by_margin(tables: Callable[[str], pd.DataFrame], margins: tuple[str, ...]) -> pd.DataFrame:
    """Stack the tables of all margins, with the rows of the whole population only once.

    ``tables`` is a function that returns the table of a margin.  The result begins with the columns ``margin`` ("all"
    for the whole population) and ``level``.  For quantiles, ``statistic`` includes the probability.  For proportions,
    ``level`` includes the category of the outcome.
    """
    parts = []
    for k, margin in enumerate(margins):
        table = tables(margin).rename(columns={margin: "level"}).astype({"level": str})
        everybody = table["level"] == "all"
        table.insert(0, "margin", np.where(everybody, "all", margin))
        if "prob" in table:
            table["statistic"] += table["prob"].map(" {:g}".format, na_action="ignore").fillna("")
        if "category" in table:
            table["level"] += table["category"].map(lambda category: f": {category}" if category else "")
        parts.append(table if k == 0 else table[~everybody])
    return pd.concat(parts, ignore_index=True)


def workers() -> RealPopulation:
    """Return 29,501 workers of the 2000 census: weekly income, top-coded at 20,000 dollars, by education and division.

    The measure of size is the work experience in years.

    Raises
    ------
    InputError
        The extra ``demo`` is not installed.
    """
    frame = census_workers().astype({"education": str})
    return RealPopulation(
        "workers", frame, "income ~ education + division", Outcome(bounds=(0, TOP_CODE)), "division", "experience",
        statistics=AMOUNTS,
    )  # fmt: skip


def households() -> RealPopulation:
    """Return 30,000 households, resampled with replacement from the 6,000 of eusilc in the R package laeken.

    The measure of size is the number of members times random noise, so that weights do not reveal this number.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    heads = _eusilc("eusilc[!duplicated(eusilc$db030), ]", db040="character", hsize="numeric", age="numeric",
                    eqIncome="numeric")  # fmt: skip
    rng = np.random.default_rng(POPULATION_SEED)
    drawn = heads.sample(HOUSEHOLDS, replace=True, random_state=rng, ignore_index=True)
    frame = pd.DataFrame({
        "region": drawn["db040"], "age": pd.cut(drawn["age"], AGES, right=False).astype(str),
        "income": drawn["eqIncome"], "size": drawn["hsize"] * np.exp(0.2 * rng.standard_normal(HOUSEHOLDS)),
    })  # fmt: skip
    schema = Outcome(bounds=(0, 150_000))
    return RealPopulation("households", frame, "income ~ age + region", schema, "region", "size", statistics=AMOUNTS)


def poverty() -> RealPopulation:
    """Return the population of :func:`households` with the outcome ``poor``: whether income is below 60% of the median.

    15% of the households are poor.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    frame = households().frame
    income = frame.pop("income")
    poor = np.where(income < POOR * income.median(), "yes", "no")
    frame["poor"] = pd.Categorical(poor, YES_OR_NO)
    formula, schema = "poor ~ age + region", Outcome(levels=YES_OR_NO)
    model = MultinomialRegression(formula, weight="public")
    return RealPopulation("poverty", frame, formula, schema, "region", "size", statistics=CATEGORIES, model=model)


def persons() -> RealPopulation:
    """Return about 27,000 persons of 16 years or more with an income of their own, in 15,000 households of eusilc.

    Households are resampled with replacement.  A household is a PSU, and the unit that epsilon protects.  A sample
    contains all persons of a sampled household.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    earners = _earners()
    rng = np.random.default_rng(POPULATION_SEED)
    drawn = pd.DataFrame({"db030": rng.choice(earners["db030"].unique(), HOUSEHOLDS // 2)})
    drawn = drawn.reset_index(names="household")
    frame = drawn.merge(earners, on="db030").rename(columns={"db040": "region", "rb090": "sex"})
    noise = np.exp(0.2 * rng.standard_normal(HOUSEHOLDS // 2))
    frame["members"] = frame.groupby("household")["household"].transform("size")
    frame["size"] = noise[frame["household"]]
    columns = ["household", "region", "sex", "income", "members", "size"]
    return RealPopulation(
        "persons", frame[columns], "income ~ sex + region", Outcome(bounds=(0, 200_000)), "region", "size", "household",
        "members", unit="household", weight="public", statistics=AMOUNTS,
    )  # fmt: skip


def _earners() -> pd.DataFrame:
    """Return the persons of eusilc who are 16 years or more and have an income of their own."""
    pays = "rowSums(eusilc[eusilc$age >= 16, grep('^py', names(eusilc))], na.rm = TRUE)"
    adults = _eusilc(
        f"cbind(eusilc[eusilc$age >= 16, c('db030', 'db040', 'rb090')], income = {pays})",
        db030="numeric", db040="character", rb090="character", income="numeric",
    )  # fmt: skip
    return adults[adults["income"] > 0]


def _eusilc(rows: str, **kinds: str) -> pd.DataFrame:
    """Read columns of a data frame, which an R expression makes from the data set eusilc of the R package laeken."""
    return columns_of_r("laeken", "eusilc", rows, **kinds)


def columns_of_r(package: str, data: str, rows: str, **kinds: str) -> pd.DataFrame:
    """Read columns of an R data frame, which an R expression makes from the data set of an R package.

    ``rows`` is the expression.  ``kinds`` has, by name of the column, the R type to which the column is converted, such
    as "numeric".
    """
    from ...r.session import in_session, session

    @in_session
    def read() -> pd.DataFrame:
        robjects = session(package)
        robjects.r(f"data({data}, package = '{package}')")
        robjects.r(f"rows_of_r <- {rows}")
        columns: dict[str, Any] = {
            name: np.asarray(robjects.r(f"as.{kind}(rows_of_r${name})")) for name, kind in kinds.items()
        }
        robjects.r("rm(rows_of_r)")
        return pd.DataFrame(columns)

    return read()


def visits() -> RealPopulation:
    """Return 20,190 person-years of the RAND health insurance experiment, with the number of visits to a doctor.

    The data set is ``randhie`` of statsmodels.  Three in ten person-years have no visit; the largest number is 77.  The
    measure of size increases with the number of visits, as in samples of users of a service, and includes random noise.
    """
    from statsmodels.datasets import randhie

    read, rng = randhie.load_pandas().data, np.random.default_rng(POPULATION_SEED)
    health = np.select([read["hlthg"] == 1, (read["hlthf"] == 1) | (read["hlthp"] == 1)], ["good", "fair"], "excellent")
    noise = np.exp(0.3 * rng.standard_normal(len(read)))
    frame = pd.DataFrame({
        "health": health, "plan": pd.cut(read["lncoins"], COINSURANCE, labels=PLANS).astype(str),
        "visits": read["mdvis"].astype(np.int64), "size": (1 + 0.3 * np.log1p(read["mdvis"])) * noise,
    })  # fmt: skip
    formula, schema = "visits ~ health + plan", Outcome(bounds=(0, 100), whole=True)
    model = NegativeBinomialRegression(formula)
    return RealPopulation("visits", frame, formula, schema, "plan", "size", model=model)


def shares() -> RealPopulation:
    """Return 30,000 households of eusilc, with the first earner's share in the income of the household.

    An earner is 16 years or more and has an income.  Households are resampled with replacement from the 3,443
    households with at least two earners.  The weight is public under mechanisms that fit a beta regression, because
    this model does not include it; strict releases synthesize it.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    earners = _earners()
    households = earners.groupby("db030", sort=True)
    first, whole = households.first(), households["income"].sum()
    several = (households.size() >= 2).to_numpy()
    part = (first["income"] / whole)[several].to_numpy()
    frame = pd.DataFrame({
        "region": first["db040"][several].to_numpy(), "sex": first["rb090"][several].to_numpy(), "share": part,
    })  # fmt: skip
    frame, noise = _resampled(frame)
    frame["size"] = np.exp(0.4 * noise)
    formula, bounds = "share ~ sex + region", (0, 1)
    model = BetaRegression(formula, bounds=bounds, weight="public")
    return RealPopulation("shares", frame, formula, Outcome(bounds=bounds), "region", "size", model=model)


def earnings() -> RealPopulation:
    """Return 30,000 employees with a year's pay, resampled with replacement from the 6,460 employees in eusilc.

    The measure of size is the square root of pay times random noise.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    paid = _eusilc("eusilc[which(eusilc$age >= 16 & eusilc$py010n > 0), ]", db040="character", rb090="character",
                   pl030="numeric", py010n="numeric")  # fmt: skip
    job = np.select([paid["pl030"] == 1, paid["pl030"] == 2], ["full time", "part time"], "other")
    pay = paid["py010n"].to_numpy()
    frame, noise = _resampled(pd.DataFrame({"region": paid["db040"], "sex": paid["rb090"], "job": job, "pay": pay}))
    frame["size"] = np.sqrt(frame["pay"]) * np.exp(0.2 * noise)
    formula, schema = "pay ~ sex + job", Outcome(bounds=(0, 200_000))
    model = GammaRegression(formula)
    return RealPopulation("earnings", frame, formula, schema, "job", "size", statistics=AMOUNTS, model=model)


def adults() -> RealPopulation:
    """Return 30,000 persons of 16 years or more with a year's pay, which is 0 for half of them.

    They are resampled from approximately 11,500 persons of eusilc.  Positive pay is set to at least 100 and at most
    200,000 euros.  Samples are simple random samples within strata.  So the weight depends only on the stratum, which
    is a public predictor, and the weight is public, too.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    read = _eusilc("eusilc[which(eusilc$age >= 16), ]", rb090="character", age="numeric", py010n="numeric")
    pay, (low, high) = read["py010n"].fillna(0).to_numpy(), (100, 200_000)
    age = pd.cut(read["age"], ADULTS, right=False).astype(str)
    rows = pd.DataFrame({"sex": read["rb090"], "age": age, "pay": np.where(pay > 0, pay.clip(low, high), 0.0)})
    frame, _ = _resampled(rows)
    frame["size"] = 1.0
    formula = "pay ~ sex + age"
    model = Mixture(formula, zeros=True, bounds=(low, high), weight="public")
    schema = Outcome(bounds=(0, high), zeros=True)
    return RealPopulation("adults", frame, formula, schema, "age", "size", weight="public", model=model)


def activity() -> RealPopulation:
    """Return 30,000 persons of 16 years or more with their activity, one of five categories.

    They are resampled from the 12,107 persons of eusilc whose activity is known.  The measure of size is the number of
    members of the household times random noise, so that weights are correlated with the activity.

    Raises
    ------
    RError
        R, rpy2 or laeken is not installed.
    """
    read = _eusilc("eusilc[which(eusilc$age >= 16 & !is.na(eusilc$pl030)), ]", db040="character", rb090="character",
                   pl030="numeric", hsize="numeric")  # fmt: skip
    does = pd.Categorical(read["pl030"].map(ACTIVITIES).fillna("other"), ANY_ACTIVITY)
    rows = pd.DataFrame({"region": read["db040"], "sex": read["rb090"], "activity": does, "hsize": read["hsize"]})
    frame, noise = _resampled(rows)
    frame["size"] = frame.pop("hsize") * np.exp(0.2 * noise)
    formula, schema = "activity ~ sex + region", Outcome(levels=ANY_ACTIVITY)
    model = MultinomialRegression(formula, weight="public")
    return RealPopulation("activity", frame, formula, schema, "region", "size", statistics=CATEGORIES, model=model)


def _resampled(rows: pd.DataFrame) -> tuple[pd.DataFrame, Floats]:
    """Draw 30,000 rows with replacement.  Return them, and 30,000 random numbers for computing measures of size."""
    rng = np.random.default_rng(POPULATION_SEED)
    drawn = rows.sample(HOUSEHOLDS, replace=True, random_state=rng, ignore_index=True)
    return drawn, rng.standard_normal(HOUSEHOLDS)


def in_psus(population: RealPopulation) -> RealPopulation:
    """Divide the strata of a population into artificial PSUs of 40 units.

    In each stratum, units are sorted by the outcome plus much noise, so that the units of a PSU are slightly similar.
    Units that do not fill a PSU are left out.
    """
    rng, frame = np.random.default_rng(POPULATION_SEED), population.frame
    score = frame[population.outcome].rank() / len(frame)
    frame = frame.assign(order=score + ALIKE * score.std() * rng.standard_normal(len(frame)))
    frame = frame.sort_values([population.strata, "order"], ignore_index=True).drop(columns="order")
    frame["psu"] = frame.groupby(population.strata, observed=True).cumcount() // PSU
    whole = frame.groupby([population.strata, "psu"], observed=True)["psu"].transform("size") == PSU
    frame = frame[whole]  # the units of an incomplete PSU at the end of a stratum are left out
    return replace(population, name=f"{population.name} in PSUs", frame=frame.reset_index(drop=True), psu="psu")


POPULATIONS: dict[StudyPopulation, Callable[[], RealPopulation]] = {
    "workers": workers,
    "households": households,
    "workers-psu": lambda: in_psus(workers()),
    "households-psu": lambda: in_psus(households()),
    "persons": persons,
    "visits": visits,
    "shares": shares,
    "earnings": earnings,
    "adults": adults,
    "poverty": poverty,
    "activity": activity,
}


def population(name: StudyPopulation) -> RealPopulation:
    """Return the population of this name, one of the keys of ``POPULATIONS``, such as "workers".

    Raises
    ------
    InputError
        There is no population of this name.
    """
    one_of(name, get_args(StudyPopulation), "population")
    return POPULATIONS[name]()


def own(
    frame: pd.DataFrame, formula: str, *, bounds: tuple[float, float], strata: str, size: str, psu: str | None = None
) -> RealPopulation:
    """Make a population from the user's own file, whose outcome is an amount.

    Results of a study with this population are not for publication, because they contain true values of the file.

    Raises
    ------
    InputError
        A column does not exist.
    """
    made = RealPopulation("own", frame, formula, Outcome(bounds=bounds), strata, size, psu)
    named = [made.outcome, *made.margins, strata, size, *([] if psu is None else [psu])]
    missing = [name for name in named if name not in frame]
    if missing:
        raise InputError(f"{', '.join(missing)}: no such columns in the population")
    return made
