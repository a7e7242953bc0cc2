// Counts given public predictors, one term a record, b from independent standard normal numbers: shaped like the
// program of the authors of Hu, Savitsky & Williams (2020), with the weight's regression beside it.  The reference for
// stan/counts.stan and for the weight's exact draws.
functions {
  real negative_binomial(real y, real eta, real phi) {
    real log_total = log_sum_exp(eta, log(phi));
    return lgamma(y + phi) - lgamma(phi) - lgamma(y + 1) + y * (eta - log_total) + phi * (log(phi) - log_total);
  }
}
data {
  int<lower=1> n;
  int<lower=1> K;
  int<lower=0, upper=1> dispersed;
  int<lower=0, upper=1> correlated;
  int<lower=0, upper=1> weighted;
  matrix[n, K] X;
  vector<lower=0>[n] y;                            // no integers: rstan and newer Stan differ in how arrays are written
  vector[n] w;                                     // log(w / mean w)
  vector<lower=0>[n] alpha;
}
transformed data {
  matrix[n, K + 1] Z = append_col(X, log1p(y));
}
parameters {
  vector[K] z;
  vector<lower=0>[K] sigma_b;
  cholesky_factor_corr[correlated ? K : 1] L_Omega;
  vector<lower=0>[dispersed] inv_phi;
  vector[weighted ? K + 1 : 0] c;
  vector<lower=0>[weighted] sigma;
}
transformed parameters {
  vector[K] b;
  if (correlated) {
    b = sigma_b .* (L_Omega * z);
  } else {
    b = sigma_b .* z;
  }
}
model {
  vector[n] eta = X * b;
  sigma_b ~ student_t(3, 0, 1);
  L_Omega ~ lkj_corr_cholesky(6);
  z ~ normal(0, 1);
  inv_phi ~ cauchy(0, 5);
  for (i in 1:n) {
    if (dispersed) {
      target += alpha[i] * negative_binomial(y[i], eta[i], inv(inv_phi[1]));
    } else {
      target += alpha[i] * (y[i] * eta[i] - exp(eta[i]) - lgamma(y[i] + 1));
    }
  }
  if (weighted) {
    vector[n] mean_w = Z * c;
    c ~ normal(0, 10 * sigma[1]);
    target += inv_gamma_lpdf(square(sigma[1]) | 0.5, 0.005) + log(2 * sigma[1]);
    for (i in 1:n) {
      target += alpha[i] * normal_lpdf(w[i] | mean_w[i], sigma[1]);
    }
  }
}
