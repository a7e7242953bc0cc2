"""What the tests of Mixture share: a small file, densities row by row, and draws of a row-by-row program."""

from pathlib import Path

import numpy as np
import pandas as pd
import stanli
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm

from surveysynth.models.draws import Sampler

PROGRAM = Path(__file__).parent / "reference" / "mixture_rowwise.stan"
FACTS = (0.1, 0.4, 0.6, 0.9)  # quantiles of the file, where the synthetic distribution is compared
AGREE = 4  # Monte Carlo errors, in some twenty comparisons


def file(n=60, seed=1, modelled=False, zeros=False):
    """A frame; its predictors by hand, mean 0 and standard deviation 1 after a column of ones."""
    rng = np.random.default_rng(seed)
    field, upper = rng.permutation(np.arange(n) % 2), rng.random(n) < 0.35
    X = np.column_stack([np.ones(n), (field - field.mean()) / field.std()])
    above, below = 2.4 + 0.5 * X[:, 1] + 0.9 * rng.normal(size=n), 0.3 - 0.3 * X[:, 1] + 0.45 * rng.normal(size=n)
    y = np.exp(np.where(upper, above, below))
    if zeros:
        y[rng.random(n) < expit(0.6 * X[:, 1] - 1)] = 0
    w = np.full(n, 3.0)
    if modelled:
        w = 50 * np.exp(0.3 * X[:, 1] - 0.25 * np.log1p(y) + np.where(upper, 0.5, 0.25) * rng.normal(size=n))
    return pd.DataFrame({"field": np.array(list("ab"))[field], "y": y, "w": w}), X


def fitted(model, data, alpha, clamp, sampler):
    return model.fit(data, alpha, sampler) if clamp is None else model.censored(data, alpha, clamp, sampler)


def rowwise(values, X, y, zero, w):
    """log p (S, n), by scipy."""
    K = values["share"].shape[1]
    with np.errstate(divide="ignore"):
        logs = np.log(values["share"])[:, None]
    logs = logs + norm.logpdf(y[:, None], np.einsum("nr,skr->snk", X, values["b"]), values["sd"][:, None])
    if w is not None:
        mean = np.einsum("nr,skr->snk", X, values["c"][..., :-1])
        of_y = values["c"][:, None, :K, -1] * y[:, None]
        logs = logs + norm.logpdf(w[:, None], mean[..., :K] + of_y, values["sd_w"][:, None, :K])
    log_p = logsumexp(logs, axis=2)
    if "zero" in values:
        odds = values["zero"] @ X.T
        of_zeros = log_expit(odds)
        if w is not None:
            of_zeros = of_zeros + norm.logpdf(w, mean[..., -1], values["sd_w"][:, -1:])
        log_p = np.where(zero, of_zeros, log_p + log_expit(-odds))
    return log_p


def facts(values, X, y, zero, w, alpha, clamp, points):
    """What does not depend on labels, (S, .), with moments of every order.

    The log pseudo likelihood, log gamma, the synthetic distribution at points, the share of zeros, tanh of the mean log
    weight, and logs of mean residual standard deviations.
    """
    share, mean = values["share"], np.einsum("nr,skr->snk", X, values["b"])
    rho = expit(values["zero"] @ X.T) if "zero" in values else np.zeros((len(share), len(y)))
    out = [np.clip(alpha * rowwise(values, X, y, zero, w), -clamp, clamp).sum(axis=1), np.log(values["gamma"])]
    for point in points:
        below = (norm.cdf((point - mean) / values["sd"][:, None]) * share[:, None]).sum(axis=2)
        out.append(((1 - rho) * below).mean(axis=1))
    out.append(np.log((values["sd"] * share).sum(axis=1)))
    if "zero" in values:
        out.append(rho.mean(axis=1))
    if w is not None:
        K = share.shape[1]
        log_weight = np.einsum("nr,skr->snk", X, values["c"][..., :-1])
        mixed = ((log_weight[..., :K] + values["c"][:, None, :K, -1] * mean) * share[:, None]).sum(axis=2)
        out.append(np.tanh(((1 - rho) * mixed + rho * log_weight[..., -1]).mean(axis=1)))
        out.append(np.log((values["sd_w"][:, :K] * share).sum(axis=1)))
    return np.array(out).T


def rowwise_draws(model, data, X, alpha, clamp, *, draws, chains, seed, nuts=None, warmup=1000):
    """Facts (chains, draws, .) of a fit and of the row-by-row program, and its divergences."""
    zeros, weighted, n = model.zeros, data.log_w is not None, len(data.y)
    w = data.log_w if weighted else np.zeros(n)
    bound = np.inf if clamp is None else clamp
    sent = {
        "n": n, "K": model.components, "R": X.shape[1], "weighted": int(weighted), "zeros": int(zeros),
        "common": int(model.prior == "common"), "x": X, "y": data.y.tolist(), "w": w.tolist(),
        "zero": data.zero.astype(int).tolist(), "alpha": alpha.tolist(), "M": min(bound, 1e9),
        "least_sd": model.least_sd, "least_sd_w": 0.01, "a_gamma": model.a_gamma, "b_gamma": model.b_gamma,
    }  # fmt: skip
    program = stanli.Model(stan_file=str(PROGRAM), data=sent)
    nuts = nuts or draws
    fit = program.sample(chains=chains, warmup=warmup, samples=nuts, seed=seed, delta=0.99, refresh=0)
    names = {"share": "share", "b": "b", "sd": "sd", "gamma": "gamma"}
    names |= {"c": "c", "sd_w": "sd_w"} if weighted else {}
    names |= {"zero": "d"} if zeros else {}
    theirs = {name: fit.draws(of).reshape(chains * nuts, *fit.draws(of).shape[2:]) for name, of in names.items()}
    for name in ("b", "c"):
        if name in theirs:
            theirs[name] = theirs[name].swapaxes(1, 2)
    ours = fitted(
        model, data, alpha, clamp, Sampler(lambda: None, np.random.default_rng(seed), chains, 500, draws)
    ).values
    points = np.quantile(data.y[~data.zero], FACTS)

    def of(values, size):
        parts = [
            facts({k: v[s : s + 1000] for k, v in values.items()}, X, data.y, data.zero, data.log_w, alpha,
                  bound, points)
            for s in range(0, chains * size, 1000)
        ]  # fmt: skip
        return np.concatenate(parts).reshape(chains, size, -1)

    return of(ours, draws), of(theirs, nuts), int(fit.divergences.sum())
