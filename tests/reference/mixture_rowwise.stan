// A mixture of regressions given public predictors, one term a record, components summed over in it.  The reference for
// the sampler of mixtures, weighted and clamped.
data {
  int<lower=1> n;
  int<lower=1> K;
  int<lower=1> R;
  int<lower=0, upper=1> weighted;
  int<lower=0, upper=1> zeros;                     // have a probability of their own
  int<lower=0, upper=1> common;                    // mean of coefficients
  matrix[n, R] x;
  vector[n] y;
  vector[n] w;                                     // log(w / mean w)
  array[n] int<lower=0, upper=1> zero;
  vector<lower=0>[n] alpha;
  real<lower=0> M;                                 // clamp
  real<lower=0> least_sd;
  real<lower=0> least_sd_w;
  real<lower=0> a_gamma;
  real<lower=0> b_gamma;
}
transformed data {
  int L = weighted ? K + zeros : 0;                // regressions of the log weight; that of the zeros is the last
  int Q = weighted ? R + 1 : 0;
}
parameters {
  real<lower=0> gamma;
  simplex[K] share;
  matrix[R, K] b;
  vector[common ? R : 0] centre;
  vector<lower=0>[R] scale;
  vector<lower=least_sd>[K] sd;
  matrix[Q, L] c;
  vector[common ? Q : 0] centre_w;
  vector<lower=0>[Q] scale_w;
  vector<lower=least_sd_w>[L] sd_w;
  vector[zeros ? R : 0] d;
}
model {
  matrix[n, K] mean_y = x * b;
  gamma ~ gamma(a_gamma, b_gamma);
  share ~ dirichlet(rep_vector(gamma / K, K));
  for (r in 1:R) {
    b[r] ~ normal(common ? centre[r] : 0, scale[r]);
  }
  for (r in 1:Q) {
    c[r] ~ normal(common ? centre_w[r] : 0, scale_w[r]);
  }
  centre ~ normal(0, 5);
  centre_w ~ normal(0, 5);
  scale ~ student_t(3, 0, 1);
  scale_w ~ student_t(3, 0, 1);
  sd ~ student_t(3, 0, 1);                         // above a constant: so is what is cut off
  sd_w ~ student_t(3, 0, 1);
  d ~ normal(0, 2.5);
  for (i in 1:n) {
    real log_p = 0;
    if (zero[i]) {
      log_p += bernoulli_logit_lpmf(1 | x[i] * d);
      if (weighted) {
        log_p += normal_lpdf(w[i] | x[i] * c[1:R, L], sd_w[L]);
      }
    } else {
      vector[K] parts = log(share);
      for (k in 1:K) {
        parts[k] += normal_lpdf(y[i] | mean_y[i, k], sd[k]);
        if (weighted) {
          parts[k] += normal_lpdf(w[i] | x[i] * c[1:R, k] + c[Q, k] * y[i], sd_w[k]);
        }
      }
      log_p += log_sum_exp(parts);
      if (zeros) {
        log_p += bernoulli_logit_lpmf(0 | x[i] * d);
      }
    }
    target += fmin(fmax(alpha[i] * log_p, -M), M);
  }
}
