// FBP, the fully Bayes model for the population (Hu, Savitsky & Williams 2022a, eq. 4-7, appendix D), with beta and
// kappa_x integrated out.  D = 2: outcome and log pi; D = 1: the weight is public, the outcome alone.
//
// The alpha-weighted likelihood depends on the records only through A = sum alpha, the root R of
// X' diag(alpha) X = R'R, and least squares of (y~, log pi): with R = U diag(root) V,
//   Z = U' R B^  (rank x D),   v = U' R e,  X e = 1,   S = residual cross products.
// Equation 6 is the normal density of (y~, log pi) whose means are shifted by the selection,
//   y~:                 x beta    + kappa_y sigma_y^2,
//   log pi - kappa_y y~: x kappa_x + sigma_pi^2,
// up to the factor 1 / pi, which has no parameters.  So, with coefficients ~ N(0, 100), Z's columns
// are normal too, with variances sigma^2 + 100 root^2.  Cost of a gradient: O(K), whatever n is.
//
// The three parameters are sampled relative to least squares, in units of their standard errors:
// the sampler sees the same shape for a thousand records as for a million.
data {
  int<lower=1, upper=2> D;
  int<lower=1> rank;
  real<lower=0> A;
  vector<lower=0>[rank] root;
  matrix[rank, D] Z;
  vector[rank] v;
  cov_matrix[D] S;
}
transformed data {
  vector[rank] spread = 100 * square(root);
  vector[D] sigma_hat;
  vector[D - 1] kappa_hat;
  sigma_hat[1] = sqrt(S[1, 1] / A);
  if (D == 2) {
    kappa_hat[1] = S[1, 2] / S[1, 1];
    sigma_hat[2] = sqrt((S[2, 2] - square(S[1, 2]) / S[1, 1]) / A);
  }
}
parameters {
  vector[D] u;
  vector[D - 1] k;
}
transformed parameters {
  vector[D] sigma = sigma_hat .* exp(u / sqrt(2 * A));                  // sigma_y, sigma_pi
  vector[D - 1] kappa_y = kappa_hat + k * (sigma_hat[D] / sqrt(S[1, 1]));
}
model {
  sigma ~ cauchy(0, 1);
  kappa_y ~ normal(0, 10);
  target += sum(u) / sqrt(2 * A);                                       // Jacobian of u -> sigma

  target += -(A - rank) * log(sigma[1]) - 0.5 * S[1, 1] / square(sigma[1]);
  Z[ : , 1] ~ normal((D == 2 ? kappa_y[1] * square(sigma[1]) : 0) * v, sqrt(square(sigma[1]) + spread));
  if (D == 2) {
    real left = S[2, 2] - 2 * kappa_y[1] * S[1, 2] + square(kappa_y[1]) * S[1, 1];
    target += -(A - rank) * log(sigma[2]) - 0.5 * left / square(sigma[2]);
    Z[ : , 2] - kappa_y[1] * Z[ : , 1] ~ normal(square(sigma[2]) * v, sqrt(square(sigma[2]) + spread));
  }
}
