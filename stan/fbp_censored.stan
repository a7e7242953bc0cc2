// FBP under the censored pseudo likelihood (Hu, Williams & Savitsky 2025, eq. 3.5-3.6): every alpha_i log p_i, p_i the
// density of Hu, Savitsky & Williams (2022a, eq. 6), is clamped to [-bound, bound], so that nothing integrates out.
// Priors are those of fbp.stan.
//
// The coordinates come from a pilot fit to the records inside the clamp: u and k as in fbp.stan; and
// the coefficients, in the basis in which X' diag(weight) X of these records is diag(root^2), relative to
// their exact conditional in that fit: with f = root * beta ~ N(0, 100 root^2) and least squares
// target of f, its precision is 1 / sd^2 + 1 / (100 root^2).  Beyond the rank no record
// is seen, and the coordinate is the coefficient over its prior's scale.  The pilot is not part of the target.
functions {
#include censored.stanfunctions
  vector coefficients(vector z, vector target_, real sd, vector spread) {
    int rank = num_elements(spread);
    int K = num_elements(z);
    vector[rank] precision = inv_square(sd) + inv(spread);
    return append_row(target_ * inv_square(sd) ./ precision + z[1:rank] ./ sqrt(precision), 10 * tail(z, K - rank));
  }
  real coefficients_log_prior(vector f, real sd, vector spread) {      // with the Jacobian of z -> f
    int rank = num_elements(spread);
    int K = num_elements(f);
    return -0.5 * sum(square(f[1:rank]) ./ spread) - 0.5 * dot_self(tail(f, K - rank)) / 100
           - 0.5 * sum(log(inv_square(sd) + inv(spread)));
  }
}
data {
  int<lower=1, upper=2> D;                         // 2: outcome and log weight; 1: the weight is public
  int<lower=1> K;
  int<lower=1> n;                                  // different records
  int<lower=1> G;                                  // predictor rows
  real<lower=0> bound;
  matrix[G, K] X;                                  // in the basis of the pilot: row x of f is x beta
  matrix[n, D] r;                                  // L_hat^-1 (y - B_hat' x), y = (y~, w~), w~ = -log pi
  matrix[n, (D * (D + 1)) %/% 2] rr;
  vector[n] base;
  vector<lower=0>[n] alpha;
  vector<lower=0>[n] count;
  array[n] int<lower=1, upper=G> g;
  array[G + 1] int<lower=1> start;
  real<lower=0> A;
  matrix[D, D] L_hat;
  matrix[G, D] mu_hat;                             // L_hat^-1 B_hat' x
  int<lower=1> rank;
  vector<lower=0>[rank] root;
  matrix[rank, D] Z;
  vector[rank] v;
  cov_matrix[D] S;
}
transformed data {
  vector[rank] spread = 100 * square(root);
  matrix[D, D] W_hat = mdivide_left_tri_low(L_hat, identity_matrix(D));
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
  matrix[K, D] z;
}
transformed parameters {
  vector[D] sigma = sigma_hat .* exp(u / sqrt(2 * A));                  // sigma_y, sigma_pi
  vector[D - 1] kappa_y = kappa_hat + k * (sigma_hat[D] / sqrt(S[1, 1]));
  matrix[K, D] f;                                                       // beta, kappa_x in the basis
  f[ : , 1] = coefficients(z[ : , 1], Z[ : , 1] - (D == 2 ? kappa_y[1] * square(sigma[1]) : 0) * v, sigma[1], spread);
  if (D == 2) {
    f[ : , 2] = coefficients(z[ : , 2], Z[ : , 2] - kappa_y[1] * Z[ : , 1] - square(sigma[2]) * v, sigma[2], spread);
  }
}
model {
  matrix[G, D] mean_;                              // of (y~, w~) in the sample
  matrix[D, D] L = rep_matrix(0, D, D);
  sigma ~ cauchy(0, 1);
  kappa_y ~ normal(0, 10);
  target += sum(u) / sqrt(2 * A);                                       // Jacobian of u -> sigma
  for (d in 1:D) {
    target += coefficients_log_prior(f[ : , d], sigma[d], spread);
  }
  L[1, 1] = sigma[1];
  mean_[ : , 1] = X * f[ : , 1];
  if (D == 2) {
    mean_[ : , 1] += kappa_y[1] * square(sigma[1]);
    mean_[ : , 2] = -kappa_y[1] * mean_[ : , 1] - X * f[ : , 2] - square(sigma[2]);
    L[2, 1] = -kappa_y[1] * sigma[1];
    L[2, 2] = sigma[2];
  }
  target += censored_normal(r, rr, base, alpha, count, start, g, mean_ * W_hat' - mu_hat,
                            mdivide_left_tri_low(W_hat * L, identity_matrix(D)), bound);
}
