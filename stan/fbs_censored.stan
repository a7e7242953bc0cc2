// FBS under the censored pseudo likelihood (Hu, Williams & Savitsky 2025, eq. 3.5-3.6): every alpha_i log p_i is
// clamped to [-bound, bound], so that nothing integrates out.  Priors are those of fbs.stan.
//
// The coordinates come from a pilot fit to the records inside the clamp, A, R, Z0 and S0 as in fbs.stan:
// L = L_hat M, sigma_beta(t), and B = B(z), which would be an exact draw from B | Sigma, sigma_beta, Omega
// if these records were never clamped and the others always: its density there is standard normal in z.
// The pilot places the sampler and is not part of the target.
//
// With T_j = root_j root_j' the prior covariance of column j and b_j = root_j^-1 B_j, the precision of b
// is I + blockdiag(root)' (Sigma^-1 (x) R'R) blockdiag(root) = C C', and b = (C C')^-1 h + C^-T z.
functions {
#include censored.stanfunctions
  matrix wall(matrix t, matrix r) {                // as in fbs.stan
    return fmin(fmax(t, 1 - inv(r)), 0);
  }
}
data {
  int<lower=1> D;
  int<lower=1> K;
  int<lower=1> n;                                  // different records
  int<lower=1> G;                                  // predictor rows
  real<lower=0> bound;
  matrix[G, K] X;
  matrix[n, D] r;                                  // L_hat^-1 (y - B_hat' x)
  matrix[n, (D * (D + 1)) %/% 2] rr;
  vector[n] base;
  vector<lower=0>[n] alpha;
  vector<lower=0>[n] count;
  array[n] int<lower=1, upper=G> g;
  array[G + 1] int<lower=1> start;
  real<lower=0> A;
  matrix[K, K] C0;                                 // R'R
  matrix[K, D] P;                                  // R'Z0
  matrix[K, D] B_hat;
  matrix[D, D] L_hat;
  matrix<lower=0>[K, D] b;
  matrix<lower=0, upper=1>[K, D] ratio;            // r of fbs.stan
  int<lower=0, upper=1> scaled;                    // 1: sigma_beta has a prior; 0: it is 10 (prior "normal")
  int<lower=0, upper=1> correlated;                // 1: Omega ~ LKJ (prior "paper"); 0: Omega = I
}
transformed data {
  matrix[D, D] W_hat = mdivide_left_tri_low(L_hat, identity_matrix(D));
  matrix[G, D] mu_hat = X * B_hat * W_hat';
}
parameters {
  vector[D] u;                                     // M_ii = exp(u_i / sqrt(2 A))
  vector[(D * (D - 1)) %/% 2] v;                   // M_ij = v_ij / sqrt(A), i > j, by rows
  matrix[scaled ? K : 0, D] t;
  cholesky_factor_corr[correlated ? K : 1] L_Omega;
  vector[K * D] z;
}
transformed parameters {
  matrix[D, D] L;
  matrix[K, D] B;
  matrix[K, D] sigma_beta = rep_matrix(10, K, D);
  matrix[D, D] W;                                  // M^-1
  real log_prior_B;                                // with the Jacobian of z -> B
  if (scaled) {
    sigma_beta = b .* exp(fmax(t, 0) + ratio .* fmin(t - 1 + inv(ratio), 0)) ./ (1 - wall(t, ratio));
  }
  {
    matrix[D, D] M = diag_matrix(exp(u / sqrt(2 * A)));
    int at = 1;
    for (i in 2:D) {
      for (j in 1:(i - 1)) {
        M[i, j] = v[at] / sqrt(A);
        at += 1;
      }
    }
    L = L_hat * M;
    W = mdivide_left_tri_low(M, identity_matrix(D));
  }
  {
    matrix[D, D] Q = crossprod(W * W_hat);         // Sigma^-1
    matrix[K, D] PQ = P * Q;
    matrix[K * D, K * D] precision;
    matrix[K * D, K * D] C;
    vector[K * D] h;
    vector[K * D] b_all;
    array[D] matrix[K, K] root;
    for (j in 1:D) {
      root[j] = correlated ? diag_pre_multiply(sigma_beta[ : , j], L_Omega) : diag_matrix(sigma_beta[ : , j]);
    }
    for (j in 1:D) {
      int a = (j - 1) * K;
      h[a + 1 : a + K] = root[j]' * PQ[ : , j];
      for (k in 1:D) {
        int c = (k - 1) * K;
        precision[a + 1 : a + K, c + 1 : c + K] = Q[j, k] * (root[j]' * C0 * root[k]);
      }
    }
    C = cholesky_decompose(add_diag(0.5 * (precision + precision'), 1));
    b_all = mdivide_right_tri_low((mdivide_left_tri_low(C, h) + z)', C)';
    for (j in 1:D) {
      B[ : , j] = root[j] * b_all[(j - 1) * K + 1 : j * K];
    }
    log_prior_B = -0.5 * dot_self(b_all) - sum(log(diagonal(C)));
  }
}
model {
  vector[D] sigma = sqrt(diagonal(multiply_lower_tri_self_transpose(L)));
  matrix[D, D] L_Omega_S = diag_pre_multiply(inv(sigma), L);

  sigma ~ student_t(3, 0, 10);
  L_Omega_S ~ lkj_corr_cholesky(6);
  L_Omega ~ lkj_corr_cholesky(6);
  if (scaled) {
    to_vector(sigma_beta) ~ student_t(3, 0, 10);
    target += sum(log(sigma_beta)) - sum(log1m(wall(t, ratio)));       // Jacobian of t -> sigma_beta
  }
  // Jacobians: (u, v) -> L, and row i of L -> (sigma_i, free entries of row i of L_Omega_S)
  target += sum(u) / sqrt(2 * A);
  for (i in 1:D) {
    target += log(L_Omega_S[i, i]) - (i - 1) * log(sigma[i]);
  }
  target += log_prior_B;
  target += censored_normal(r, rr, base, alpha, count, start, g, X * B * W_hat' - mu_hat, W, bound);
}
