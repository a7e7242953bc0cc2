// FBS, the fully Bayes model for the observed sample (Hu, Savitsky & Williams 2022a, eq. 2-3, appendix C), with the
// coefficients B integrated out.  D columns: the d outcomes and, unless it is public, the log weight.
//
// The alpha-weighted likelihood depends on the records only through
//   A = sum alpha_i,   C0 = X' diag(alpha) X = R' R  (R is rank x K),   Z0 = R B^,
//   S0 = (Y - X B^)' diag(alpha) (Y - X B^),
// so that   log L = -(A/2) log|Sigma| - tr(Sigma^-1 [S0 + (Z0 - R B)'(Z0 - R B)]) / 2.
// With B's prior normal, vec(Z0) is normal too, with covariance
//   Sigma (x) I + blockdiag(R T_j R'),   T_j = diag(sigma_beta_j) Omega diag(sigma_beta_j),
// whatever the rank of C0.  Cost of a gradient: O((rank D)^3), whatever n is.
//
// Sigma = L L' is sampled as L = L_hat M, L_hat L_hat' = S0 / A, M lower triangular with entries
// that are nearly standard normal once scaled by sqrt(A): the sampler sees the same shape for
// a thousand records as for a million.  log sigma_beta is sampled in coordinates t of its own for
// the same reason.  Below b, the size of the estimated coefficient, the likelihood falls like
// exp(-b^2 / (2 sigma_beta^2)), a wall on the log scale; down to the coefficient's standard error
// b r the coordinate is b / sigma_beta instead, in which the wall is a normal tail.
functions {
  matrix wall(matrix t, matrix r) {                // t between the standard error and b, else an end of it
    return fmin(fmax(t, 1 - inv(r)), 0);
  }
}
data {
  int<lower=1> D;
  int<lower=1> K;
  int<lower=1> rank;
  real<lower=0> A;
  matrix[rank, K] R;
  matrix[rank, D] Z0;
  cov_matrix[D] S0;
  matrix<lower=0>[K, D] b;
  matrix<lower=0, upper=1>[K, D] r;
  int<lower=0, upper=1> scaled;      // 1: sigma_beta has a prior; 0: it is 10 (prior "normal")
  int<lower=0, upper=1> correlated;  // 1: Omega ~ LKJ (prior "paper"); 0: Omega = I
}
transformed data {
  vector[rank * D] z0 = to_vector(Z0);
  vector[rank * D] zero = rep_vector(0, rank * D);
  matrix[D, D] L_S0 = cholesky_decompose(S0);
  matrix[D, D] L_hat = L_S0 / sqrt(A);
}
parameters {
  vector[D] u;                                     // M_ii = exp(u_i / sqrt(2 A))
  vector[(D * (D - 1)) %/% 2] v;                   // M_ij = v_ij / sqrt(A), i > j, by rows
  matrix[scaled ? K : 0, D] t;
  cholesky_factor_corr[correlated ? K : 1] L_Omega;
}
transformed parameters {
  matrix[D, D] L;                                  // lower Cholesky factor of Sigma
  matrix[K, D] sigma_beta = rep_matrix(10, K, D);
  if (scaled) {
    sigma_beta = b .* exp(fmax(t, 0) + r .* fmin(t - 1 + inv(r), 0)) ./ (1 - wall(t, r));
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
  }
}
model {
  matrix[D, D] Sigma = multiply_lower_tri_self_transpose(L);
  vector[D] sigma = sqrt(diagonal(Sigma));         // Sigma = diag(sigma) Omega_S diag(sigma)
  matrix[D, D] L_Omega_S = diag_pre_multiply(inv(sigma), L);
  matrix[rank * D, rank * D] V = rep_matrix(0, rank * D, rank * D);

  for (j in 1:D) {
    int a = (j - 1) * rank;
    matrix[rank, K] R_j = diag_post_multiply(R, sigma_beta[ : , j]);
    if (correlated) {
      R_j = R_j * L_Omega;
    }
    V[a + 1 : a + rank, a + 1 : a + rank] = tcrossprod(R_j);
    for (k in 1:D) {
      int c = (k - 1) * rank;
      for (i in 1:rank) {
        V[a + i, c + i] += Sigma[j, k];
      }
    }
  }

  sigma ~ student_t(3, 0, 10);
  L_Omega_S ~ lkj_corr_cholesky(6);
  L_Omega ~ lkj_corr_cholesky(6);
  if (scaled) {
    to_vector(sigma_beta) ~ student_t(3, 0, 10);
    target += sum(log(sigma_beta)) - sum(log1m(wall(t, r)));           // Jacobian of t -> sigma_beta
  }
  // Jacobians: (u, v) -> L, and row i of L -> (sigma_i, free entries of row i of L_Omega_S)
  target += sum(u) / sqrt(2 * A);
  for (i in 1:D) {
    target += log(L_Omega_S[i, i]) - (i - 1) * log(sigma[i]);
  }

  target += -(A - rank) * sum(log(diagonal(L)))
            - 0.5 * sum(square(mdivide_left_tri_low(L, L_S0)));
  z0 ~ multi_normal(zero, V);
}
