// The beta synthesizer (Hu, Williams & Savitsky 2025, section 4.1 and supplement 1), with covariates a beta
// regression (section 5):
//
//   y_i ~ Beta(p_g, q_g),   p_g = lambda phi_g,   q_g = lambda (1 - phi_g),   logit phi_g = X[g] b,
//
// g the predictor row of record i.  The alpha-weighted likelihood knows the records of a row by
// a = sum alpha, s = sum alpha log y and t = sum alpha log(1 - y).
//
// The first column of X is 1 and the others are centred and scaled: b_1 ~ logistic(0, 1), which for one row is
// phi ~ uniform(0, 1), and b_k ~ N(0, 2.5).  lambda > 0.1 is sampled as log(lambda - 0.1).  `centre` and `root`
// make (b, log(lambda - 0.1)) of coordinates z that are nearly standard normal; they are not part of the target.
data {
  int<lower=1> G;
  int<lower=1> K;
  matrix[G, K] X;
  vector<lower=0>[G] a;
  vector<upper=0>[G] s;
  vector<upper=0>[G] t;
  vector[K + 1] centre;
  matrix[K + 1, K + 1] root;
}
parameters {
  vector[K + 1] z;
}
transformed parameters {
  vector[K] b = head(centre + root * z, K);
  real log_excess = centre[K + 1] + root[K + 1] * z;
  real lambda = 0.1 + exp(log_excess);
}
model {
  vector[G] eta = X * b;
  vector[G] p = lambda * inv_logit(eta);
  vector[G] q = lambda * inv_logit(-eta);
  vector[G] c = lgamma(lambda) - lgamma(p) - lgamma(q);

  b[1] ~ logistic(0, 1);
  tail(b, K - 1) ~ normal(0, 2.5);
  lambda ~ pareto(0.1, 1.5);
  target += log_excess;                            // Jacobian of log(lambda - 0.1) -> lambda
  target += dot_product(a, c) + dot_product(s, p - 1) + dot_product(t, q - 1);
}
