// FBP as printed (Hu, Savitsky & Williams 2022a, eq. 6-7, appendix D): one term a record, beta and kappa_x explicit.
// The reference for stan/fbp.stan, written for rstan 2.21 and for today's Stan: no arrays.
data {
  int<lower=0> n;
  int<lower=1> K;
  int<lower=0, upper=1> weighted;  // 0: the weight is public, y alone has a density (eq. 4)
  matrix[n, K] X;
  vector[n] y;
  vector[n] log_pi;
  vector<lower=0, upper=1>[n] alpha;
}
parameters {
  vector[K] beta;
  real<lower=0> sigma_y;
  vector[weighted] kappa_y;
  vector[weighted ? K : 0] kappa_x;
  vector<lower=0>[weighted] sigma_pi;
}
model {
  beta ~ normal(0, 10);
  kappa_y ~ normal(0, 10);
  kappa_x ~ normal(0, 10);
  sigma_y ~ cauchy(0, 1);
  sigma_pi ~ cauchy(0, 1);
  for (i in 1:n) {
    real mu = X[i] * beta;
    real record = normal_lpdf(y[i] | mu, sigma_y);
    if (weighted) {
      real eta = X[i] * kappa_x;
      record += normal_lpdf(log_pi[i] | kappa_y[1] * y[i] + eta, sigma_pi[1]);
      record -= eta + square(sigma_pi[1]) / 2 + kappa_y[1] * mu + square(kappa_y[1] * sigma_y) / 2;
    }
    target += alpha[i] * record;
  }
}
