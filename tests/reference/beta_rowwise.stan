// The beta regression, one censored term a record, parameters on their own scales: shaped like the script in
// Hu, Williams & Savitsky (2025, supplement 1).  A bound that nothing reaches makes it the pseudo posterior without
// a clamp.
// The reference for stan/beta.stan and stan/beta_censored.stan.
functions {
  real censored_beta_lpdf(vector y, vector p, vector q, vector alpha, real M) {
    real total = 0;
    for (i in 1:num_elements(y)) {
      total += fmax(fmin(alpha[i] * beta_lpdf(y[i] | p[i], q[i]), M), -M);
    }
    return total;
  }
}
data {
  int<lower=1> n;
  int<lower=0> K;
  matrix[n, K] x;                                  // mean 0, standard deviation 1
  vector<lower=0, upper=1>[n] y;
  vector<lower=0>[n] alpha;
  real<lower=0> M;
}
parameters {
  real<lower=0, upper=1> phi_0;                    // at the predictors' means
  vector[K] beta;
  real<lower=0.1> lambda;
}
transformed parameters {
  vector[n] phi = inv_logit(logit(phi_0) + x * beta);
}
model {
  phi_0 ~ beta(1, 1);
  beta ~ normal(0, 2.5);
  lambda ~ pareto(0.1, 1.5);
  y ~ censored_beta(lambda * phi, lambda * (1 - phi), alpha, M);
}
