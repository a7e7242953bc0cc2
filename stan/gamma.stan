// A gamma regression under record weights alpha:
//
//   y_i ~ gamma(shape, shape / mu_g),   log mu_g = X[g] b,
//
// g the predictor row of record i.  The likelihood knows the records of a row by a = sum alpha, s = sum alpha log y and
// t = sum alpha y.  The columns of X have mean 0 and standard deviation 1, but for the first, which is 1.
data {
  int<lower=1> G;
  int<lower=1> K;
  matrix[G, K] X;
  vector<lower=0>[G] a;
  vector[G] s;
  vector<lower=0>[G] t;
}
parameters {
  vector[K] b;
  real<lower=0> shape;
}
model {
  vector[G] eta = X * b;

  b[1] ~ normal(0, 10);
  tail(b, K - 1) ~ normal(0, 2.5);
  shape ~ lognormal(0, 2);
  target += dot_product(a, shape * (log(shape) - eta) - lgamma(shape)) + (shape - 1) * sum(s)
            - shape * dot_product(t, exp(-eta));
}
