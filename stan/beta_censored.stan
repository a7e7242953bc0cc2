// The beta synthesizer under the censored pseudo likelihood (Hu, Williams & Savitsky 2025, eq. 3.5-3.6 and
// supplement 1):
//
//   sum_i count_i clamp(alpha_i log p_i, -bound, bound),
//   log p_i = -log B(p_g, q_g) + (p_g - 1) log y_i + (q_g - 1) log(1 - y_i),
//
// g = row_of[i] the predictor row of record i.  What a row has in common is computed once, and records are dealt
// with all at once.  Parameters, priors and coordinates are those of beta.stan.
data {
  int<lower=1> G;
  int<lower=1> K;
  int<lower=1> n;                                  // different records
  real<lower=0> bound;
  matrix[G, K] X;
  array[n] int<lower=1, upper=G> row_of;
  vector<lower=0>[n] alpha;
  vector<upper=0>[n] s;                            // alpha log y
  vector<upper=0>[n] t;                            // alpha log(1 - y)
  vector<lower=0>[n] count;
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
  vector[G] p_1 = p - 1;
  vector[G] q_1 = q - 1;

  b[1] ~ logistic(0, 1);
  tail(b, K - 1) ~ normal(0, 2.5);
  lambda ~ pareto(0.1, 1.5);
  target += log_excess;                            // Jacobian of log(lambda - 0.1) -> lambda
  target += dot_product(count, fmax(fmin(alpha .* c[row_of] + s .* p_1[row_of] + t .* q_1[row_of], bound), -bound));
}
